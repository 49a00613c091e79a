// Which of m items have changed since the last message to each process: what differential encoding sends. The
// items are in a list by the time of their last change, so that a message costs as many steps as it carries
// items.
#pragma once

#include <cstdint>
#include <vector>

#include "causality/event.h"

namespace cairn::causality {

class Changes {
  public:
    Changes() = default;
    Changes(std::uint32_t items, Process processes)
        : before_(items + 1), behind_(items + 1), changed_(items, 0), told_(processes, 0), head_(items) {
        before_[head_] = behind_[head_] = head_;
        for (std::uint32_t item = items; item-- > 0;) push(item);
    }

    void touch(std::uint32_t item) {
        before_[behind_[item]] = before_[item];
        behind_[before_[item]] = behind_[item];
        push(item);
        changed_[item] = ++now_;
    }
    // Calls `visit` for each that has changed since the last call for the same process. Items that never
    // changed have the value with which everybody begins.
    template <class Visit>
    void since_last(Process to, Visit visit) {
        for (std::uint32_t item = behind_[head_]; item != head_ && changed_[item] > told_[to];
             item = behind_[item])
            visit(item);
        told_[to] = now_;
    }
    // Nobody has been told anything.
    void forget() { told_.assign(told_.size(), 0); }

  private:
    void push(std::uint32_t item) {
        before_[item] = head_;
        behind_[item] = behind_[head_];
        before_[behind_[head_]] = item;
        behind_[head_] = item;
    }

    std::vector<std::uint32_t> before_, behind_;  // a ring through head_
    std::vector<std::uint64_t> changed_;
    std::vector<std::uint64_t> told_;
    std::uint64_t now_ = 0;
    std::uint32_t head_ = 0;
};

}  // namespace cairn::causality
