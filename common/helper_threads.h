// Threads that help with work that the caller does too, or waits for.
#pragma once

#include <pthread.h>

#include <cstddef>
#include <utility>
#include <vector>

namespace cairn {

enum class Caller : bool { works, waits };

// Threads that are waited for when this goes.
class HelperThreads {
  public:
    // Begins up to `wanted` threads that call `function(argument)` once.
    HelperThreads(std::size_t wanted, void* (*function)(void*), void* argument,
                  Caller caller = Caller::works);
    HelperThreads() = default;
    HelperThreads(HelperThreads&& other) noexcept : threads_(std::exchange(other.threads_, {})) {}
    HelperThreads& operator=(HelperThreads&& other) noexcept;
    HelperThreads(const HelperThreads&) = delete;
    HelperThreads& operator=(const HelperThreads&) = delete;
    ~HelperThreads() { join(); }

    // They end by themselves; here that is waited for.
    void join();
    [[nodiscard]] bool empty() const { return threads_.empty(); }

  private:
    std::vector<pthread_t> threads_;
};

// Begins up to `wanted` threads that each call `work` once; joined when the result is destroyed. Fewer, down
// to none, where the user's limit of processes leaves no room (RLIMIT_NPROC, EAGAIN of pthread_create(3)):
// whoever asks for help must be able to do all of it himself. `work` must outlive the threads.
//
// They begin on other processors than the caller's, where it may use any, and may go anywhere from then on.
// Where the kernel chooses, it may put a thread beside its maker and leave it there for some ten
// milliseconds, which is longer than most of what is helped with here takes: in a virtual machine an idle
// processor is taken for one that its host has put to sleep (available_idle_cpu() and vcpu_is_preempted(),
// kernel/sched). Of a caller who does nothing but wait for them the last one begins on the caller's.
template <class Call>
HelperThreads helper_threads(std::size_t wanted, const Call& work, Caller caller = Caller::works) {
    const auto function = [](void* argument) -> void* {
        (*static_cast<const Call*>(argument))();
        return nullptr;
    };
    return {wanted, function, const_cast<Call*>(&work), caller};
}

}  // namespace cairn
