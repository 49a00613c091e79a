// The threads that a checkpoint has seized, by their process and by their own number, which is all that
// waitpid tells.
#pragma once

#include <sys/types.h>

#include <map>
#include <ranges>
#include <unordered_map>
#include <utility>

namespace cairn::capture {

struct SeizedThread {
    pid_t pid = 0, tid = 0;
    bool still = false;
    int stop_signal = 0;  // of a group stop
    int sent_on = 0;      // so many times it had stopped in the vdso

    [[nodiscard]] bool is_main() const { return pid == tid; }
};

class SeizedThreads {
  public:
    [[nodiscard]] bool contains(pid_t tid) const { return process_of_.contains(tid); }
    [[nodiscard]] SeizedThread* find(pid_t tid) {
        const auto found = process_of_.find(tid);
        return found == process_of_.end() ? nullptr : &threads_.at({found->second, tid});
    }
    // In the place of what was known of this thread.
    void put(const SeizedThread& thread) {
        erase(thread.tid);
        process_of_.emplace(thread.tid, thread.pid);
        threads_.emplace(std::pair(thread.pid, thread.tid), thread);
    }
    void erase(pid_t tid) {
        const auto found = process_of_.find(tid);
        if (found == process_of_.end()) return;
        threads_.erase({found->second, tid});
        process_of_.erase(found);
    }
    template <class Which>
    void erase_if(Which which) {
        std::erase_if(threads_, [&](const auto& each) {
            if (!which(each.second)) return false;
            process_of_.erase(each.second.tid);
            return true;
        });
    }

    [[nodiscard]] auto all() const { return std::views::values(threads_); }
    [[nodiscard]] auto of(pid_t pid) const {
        return std::ranges::subrange(threads_.lower_bound({pid, 0}), threads_.lower_bound({pid + 1, 0})) |
               std::views::values;
    }

  private:
    std::map<std::pair<pid_t, pid_t>, SeizedThread> threads_;  // by process and thread
    std::unordered_map<pid_t, pid_t> process_of_;
};

}  // namespace cairn::capture
