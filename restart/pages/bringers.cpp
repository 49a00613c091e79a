#include "restart/pages/bringers.h"

#include <algorithm>
#include <thread>

namespace cairn::restart::pages {
namespace {

constexpr std::size_t most_bringers = 8;

}  // namespace

Bringers::Bringers()
    : count_(std::clamp<std::size_t>(std::thread::hardware_concurrency(), 1, most_bringers)) {}

Bringers::~Bringers() {
    const std::scoped_lock lock(mutex_);
    over_ = true;
    begun_.notify_all();
}

std::vector<Brought> Bringers::bring(std::span<const Order> orders) {
    orders_ = orders;
    brought_.assign(orders.size(), {});
    next_ = 0;
    const bool shared = count_ > 1 && orders.size() > 1;
    if (shared) {
        if (helpers_.empty())
            helpers_ = HelperThreads(
                count_ - 1,
                [](void* bringers) -> void* {
                    static_cast<Bringers*>(bringers)->help();
                    return nullptr;
                },
                this);
        const std::scoped_lock lock(mutex_);
        ++batch_;
        open_ = true;
        begun_.notify_all();
    }
    take(own_);
    if (shared) {
        std::unique_lock lock(mutex_);
        open_ = false;
        ended_.wait(lock, [this] { return at_work_ == 0; });
    }
    return std::move(brought_);
}

void Bringers::help() {
    Bringer bringer;
    std::uint64_t last = 0;
    std::unique_lock lock(mutex_);
    for (;;) {
        begun_.wait(lock, [&] { return over_ || (open_ && batch_ != last); });
        if (over_) return;
        last = batch_;
        ++at_work_;
        lock.unlock();
        take(bringer);
        lock.lock();
        if (--at_work_ == 0) ended_.notify_one();
    }
}

void Bringers::take(Bringer& bringer) {
    for (auto index = next_++; index < orders_.size(); index = next_++)
        brought_[index] = bringer.bring(orders_[index]);
}

}  // namespace cairn::restart::pages
