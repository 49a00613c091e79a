// Something for each channel of n processes: a table as long as that is small, else only for those that are
// used.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "causality/event.h"

namespace cairn::causality {

template <class T>
class PerChannel {
  public:
    explicit PerChannel(Process processes) : n_(processes) {
        if (std::uint64_t{n_} * n_ <= most_in_table) table_.resize(std::size_t{n_} * n_);
    }
    // T{} as long as it hasn't been set.
    [[nodiscard]] T& operator()(Process from, Process to) {
        const std::uint64_t key = std::uint64_t{from} * n_ + to;
        return table_.empty() ? used_[key] : table_[key];
    }
    [[nodiscard]] T get(Process from, Process to) const {
        const std::uint64_t key = std::uint64_t{from} * n_ + to;
        if (!table_.empty()) return table_[key];
        const auto found = used_.find(key);
        return found == used_.end() ? T{} : found->second;
    }

  private:
    static constexpr std::uint64_t most_in_table = 4U << 20;
    Process n_;
    std::vector<T> table_;
    std::unordered_map<std::uint64_t, T> used_;
};

}  // namespace cairn::causality
