// Rows of n numbers, all of them alike, of which a run with 1,000 processes makes millions: from a store that
// gives them out again, merged and compared several numbers at a time.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

#include "causality/event.h"

namespace cairn::causality {

// Signed, because the oldest x86-64 compares only those several at a time: numbers stay below 2^31.
using Lanes [[gnu::vector_size(16), gnu::may_alias]] = std::int32_t;
inline constexpr std::size_t lanes_wide = sizeof(Lanes) / sizeof(std::int32_t);

class Rows {
  public:
    explicit Rows(Process entries) : lanes_((entries + lanes_wide - 1) / lanes_wide) {}

    // The number of a new row, with 0 everywhere or with what that row has.
    std::uint32_t make() {
        const std::uint32_t id = unused();
        std::fill_n(at(id), lanes_, Lanes{});
        return id;
    }
    std::uint32_t copy(std::uint32_t of) {
        const std::uint32_t id = unused();
        std::copy_n(at(of), lanes_, at(id));
        return id;
    }
    void drop(std::uint32_t id) { unused_.push_back(id); }
    [[nodiscard]] std::size_t used() const { return made_ - unused_.size(); }
    [[nodiscard]] std::size_t made() const { return made_; }

    [[nodiscard]] std::int32_t* row(std::uint32_t id) {
        return slabs_[id / in_slab].get() + id % in_slab * lanes_ * lanes_wide;
    }
    [[nodiscard]] const std::int32_t* row(std::uint32_t id) const {
        return slabs_[id / in_slab].get() + id % in_slab * lanes_ * lanes_wide;
    }

    // Entry by entry the greater of the two.
    void merge(std::uint32_t into, std::uint32_t from) {
        Lanes* mine = at(into);
        const Lanes* theirs = at(from);
        for (std::size_t i = 0; i < lanes_; ++i) mine[i] = mine[i] > theirs[i] ? mine[i] : theirs[i];
    }
    void set_lowest_bits(std::uint32_t id) {
        Lanes* mine = at(id);
        for (std::size_t i = 0; i < lanes_; ++i) mine[i] |= 1;
    }
    // Whether some entry of `a` is greater than b's.
    [[nodiscard]] bool greater_somewhere(std::uint32_t a, std::uint32_t b) const {
        const Lanes *x = at(a), *y = at(b);
        Lanes found{};
        for (std::size_t i = 0; i < lanes_; ++i) found |= x[i] > y[i];
        return (found[0] | found[1] | found[2] | found[3]) != 0;
    }
    // The same for b's and c's, the lowest bit left aside.
    [[nodiscard]] bool greater_somewhere(std::uint32_t a, std::uint32_t b, std::uint32_t c) const {
        const Lanes *x = at(a), *y = at(b), *z = at(c);
        constexpr std::size_t stride = 8;  // looks at what it has found only now and then
        for (std::size_t i = 0; i < lanes_;) {
            Lanes found{};
            for (const std::size_t end = std::min(lanes_, i + stride); i < end; ++i) {
                const Lanes mine = x[i] | 1;
                found |= (mine > (y[i] | 1)) & (mine > (z[i] | 1));
            }
            if ((found[0] | found[1] | found[2] | found[3]) != 0) return true;
        }
        return false;
    }

  private:
    static constexpr std::uint32_t in_slab = 64;
    [[nodiscard]] Lanes* at(std::uint32_t id) { return reinterpret_cast<Lanes*>(row(id)); }
    [[nodiscard]] const Lanes* at(std::uint32_t id) const { return reinterpret_cast<const Lanes*>(row(id)); }
    std::uint32_t unused() {
        if (!unused_.empty()) {
            const std::uint32_t id = unused_.back();
            unused_.pop_back();
            return id;
        }
        if (made_ % in_slab == 0)  // aligned for everything
            slabs_.push_back(std::make_unique_for_overwrite<std::int32_t[]>(lanes_ * lanes_wide * in_slab));
        return made_++;
    }

    std::size_t lanes_;
    std::vector<std::unique_ptr<std::int32_t[]>> slabs_;
    std::vector<std::uint32_t> unused_;
    std::uint32_t made_ = 0;
};

}  // namespace cairn::causality
