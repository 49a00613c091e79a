// Which message each receive got that could have got another. Written as receives complete, asked for as they
// are posted.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

#include "mpi/record/reader.h"
#include "mpi/record/writer.h"

namespace cairn::mpi {

struct Match {
    bool cancelled = false;
    std::optional<int> source, tag;  // where any would have done
};

class MatchWriter {
  public:
    // This receive is posted: each number is one more than the last.
    void post(std::uint64_t number) { open_.push_back(number); }
    void complete(RecordWriter& out, std::uint64_t number, const Match& match) {
        const auto at = std::lower_bound(open_.begin(), open_.end(), number);
        const auto before = static_cast<std::uint64_t>(at - open_.begin());
        open_.erase(at);
        out.put(Column::position,
                before << 3 | (match.tag ? 4U : 0U) | (match.source ? 2U : 0U) | (match.cancelled ? 1U : 0U));
        if (match.source) out.put(Column::source, static_cast<std::uint64_t>(*match.source));
        if (match.tag) out.put(Column::tag, static_cast<std::uint64_t>(*match.tag));
    }

  private:
    std::vector<std::uint64_t> open_;  // ascending
};

class MatchReader {
  public:
    // Of the receive with this number; nothing if it got none before the record ends. Each number is asked
    // for once. Memory: for the receives that completed before one that is asked for, and are yet to be.
    std::optional<Match> match(RecordReader& in, std::uint64_t number) {
        for (;;) {
            if (const auto found = known_.find(number); found != known_.end()) {
                const Match match = found->second;
                known_.erase(found);
                return match;
            }
            if (ended_ || !read(in)) {
                ended_ = true;
                return std::nullopt;
            }
        }
    }

    // A receive has been asked for that got nothing before the record ends.
    [[nodiscard]] bool ended() const { return ended_; }
    // There may be more of the record now.
    void look_again() { ended_ = false; }

  private:
    bool read(RecordReader& in) {
        const auto position = in.next(Column::position);
        if (!position) return false;
        const std::uint64_t before = *position >> 3;
        Match match;
        match.cancelled = (*position & 1) != 0;
        if ((*position & 2) != 0) {
            const auto source = in.next(Column::source);
            if (!source) return false;
            match.source = static_cast<int>(*source);
        }
        if ((*position & 4) != 0) {
            const auto tag = in.next(Column::tag);
            if (!tag) return false;
            match.tag = static_cast<int>(*tag);
        }
        while (open_.size() <= before) open_.push_back(next_++);
        const auto at = open_.begin() + static_cast<std::ptrdiff_t>(before);
        known_.emplace(*at, match);
        open_.erase(at);
        return true;
    }

    std::uint64_t next_ = 0;
    std::vector<std::uint64_t> open_;
    std::unordered_map<std::uint64_t, Match> known_;
    bool ended_ = false;
};

}  // namespace cairn::mpi
