// A thread of a program of this folder that has something of its own and checks it when it is asked.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>

namespace test {

// A thread that sets itself up and answers when it is asked.
class Asked {
  public:
    Asked(std::function<void()> set_up, std::function<void()> verify) {
        std::thread([this, set_up = std::move(set_up), verify = std::move(verify)] {
            set_up();
            for (std::unique_lock lock(mutex_);;) {
                busy_ = false;
                changed_.notify_all();
                changed_.wait(lock, [this] { return busy_; });
                verify();
            }
        }).detach();
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [this] { return !busy_; });
    }
    void ask() {
        std::unique_lock lock(mutex_);
        busy_ = true;
        changed_.notify_all();
        changed_.wait(lock, [this] { return !busy_; });
    }

  private:
    std::mutex mutex_;
    std::condition_variable changed_;
    bool busy_ = true;
};

}  // namespace test
