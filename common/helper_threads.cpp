// Begins helper threads on other processors than the caller's.
#include "common/helper_threads.h"

#include <sched.h>

#include <cstdint>
#include <memory>
#include <utility>

namespace cairn {
namespace {

struct Begin {
    void* (*function)(void*);
    void* argument;
    cpu_set_t anywhere;
    bool elsewhere;  // it has begun where it may not have to stay
};

void* begin(void* argument) {
    const std::unique_ptr<Begin> its(static_cast<Begin*>(argument));
    // Where the processors that it may use have changed meanwhile (cpuset(7)), the kernel has dealt with it.
    if (its->elsewhere) (void)::sched_setaffinity(0, sizeof its->anywhere, &its->anywhere);
    return its->function(its->argument);
}

// The attributes of a thread that begins on one of these.
class Attributes {
  public:
    explicit Attributes(const cpu_set_t& processors) {
        ::pthread_attr_init(&attributes_);
        valid_ = ::pthread_attr_setaffinity_np(&attributes_, sizeof processors, &processors) == 0;
    }
    ~Attributes() { ::pthread_attr_destroy(&attributes_); }
    Attributes(const Attributes&) = delete;
    Attributes& operator=(const Attributes&) = delete;
    [[nodiscard]] const pthread_attr_t* get() const { return valid_ ? &attributes_ : nullptr; }

  private:
    pthread_attr_t attributes_{};
    bool valid_ = false;
};

}  // namespace

HelperThreads::HelperThreads(std::size_t wanted, void* (*function)(void*), void* argument, Caller caller) {
    if (wanted == 0) return;
    threads_.reserve(wanted);
    // Fails on a machine with more processors than a cpu_set_t has room for.
    cpu_set_t anywhere{};
    const bool known = ::sched_getaffinity(0, sizeof anywhere, &anywhere) == 0;
    cpu_set_t others = anywhere, own{};
    if (const int here = known ? ::sched_getcpu() : -1; here >= 0 && here < CPU_SETSIZE) {
        CPU_CLR(static_cast<std::size_t>(here), &others);
        CPU_SET(static_cast<std::size_t>(here), &own);
    }
    const Attributes on_others(others), on_own(own);
    bool elsewhere = known && CPU_COUNT(&others) > 0 && on_others.get() != nullptr;
    while (threads_.size() < wanted) {
        const bool on_callers = caller == Caller::waits && wanted > 1 && threads_.size() + 1 == wanted;
        const auto* attributes = !elsewhere ? nullptr : on_callers ? on_own.get() : on_others.get();
        auto its = std::make_unique<Begin>(Begin{function, argument, anywhere, elsewhere});
        pthread_t thread = {};
        if (::pthread_create(&thread, attributes, begin, its.get()) != 0) {
            if (!std::exchange(elsewhere, false)) return;
            continue;
        }
        (void)its.release();
        threads_.push_back(thread);
    }
}

HelperThreads& HelperThreads::operator=(HelperThreads&& other) noexcept {
    join();
    threads_ = std::exchange(other.threads_, {});
    return *this;
}

void HelperThreads::join() {
    for (const pthread_t thread : std::exchange(threads_, {})) (void)::pthread_join(thread, nullptr);
}

}  // namespace cairn
