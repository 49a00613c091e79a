#include "restart/pages/changes.h"

#include <algorithm>

namespace cairn::restart::pages {
namespace {

ProgramRange source(const Event& event) {
    return {event.from, event.from + event.length};
}
ProgramRange destination(const Event& event) {
    return event.kind == Change::remap ? ProgramRange{event.to, event.to + event.length} : ProgramRange{};
}

// What becomes of what was missing at an address.
struct Fate {
    const Event* moved = nullptr;
    bool gone = false, in_doubt = false;
};

// mremap() without MREMAP_DONTUNMAP tells of the move, and then that its old place is unmapped: the two are
// one.
Fate fate(ProgramAddress address, std::span<const Event> batch) {
    Fate result;
    bool removed = false;
    for (const auto& event : batch) {
        if (event.kind == Change::fork || !source(event).has(address)) continue;
        if (event.kind == Change::remap) {
            result.in_doubt = result.in_doubt || result.moved != nullptr;
            result.moved = &event;
        }
        if (event.kind == Change::remove) removed = true;
    }
    for (const auto& event : batch) {
        if (event.kind != Change::unmap || !source(event).has(address)) continue;
        if (result.moved == nullptr)
            result.gone = true;
        else if (source(event) != source(*result.moved))
            result.in_doubt = true;
    }
    if (removed && result.moved != nullptr) result.in_doubt = true;
    result.gone = result.gone || removed;
    return result;
}

bool arrives_at(ProgramAddress address, std::span<const Event> batch) {
    return std::ranges::any_of(batch, [&](const Event& event) { return destination(event).has(address); });
}

// Which of the changes a child has from its parent.
class Inherited {
  public:
    Inherited(const Missing& before, std::span<const Event> batch, const Registered& in_child,
              const Registered& in_parent)
        : before_(before), batch_(batch), in_child_(in_child), in_parent_(in_parent) {}

    // Nothing if it can't be told.
    [[nodiscard]] std::optional<std::vector<Event>> events() {
        std::vector<Event> result;
        for (const auto& event : batch_)
            if (event.kind != Change::fork && event.kind != Change::remove && happened(event, batch_.size()))
                result.push_back(event);
        return in_doubt_ ? std::nullopt : std::optional(result);
    }

  private:
    // An address that was registered before, and is not when the change has happened, unless something else
    // has moved there since.
    [[nodiscard]] std::optional<ProgramAddress> telling(const Event& event) const {
        if (event.kind == Change::remap || before_.find(event.from)) return event.from;
        const auto piece = before_.pieces().lower_bound(event.from);
        if (piece != before_.pieces().end() && piece->first < event.from + event.length) return piece->first;
        return std::nullopt;  // nothing was missing in it
    }

    // `depth`: no chain is longer than the batch.
    [[nodiscard]] bool happened(const Event& event, std::size_t depth) {
        const auto address = telling(event);
        if (!address || depth == 0) return false;
        bool taken = false;
        for (const auto& other : batch_) {
            if (!destination(other).has(*address)) continue;
            if (happened(other, depth - 1)) return true;
            taken = true;
        }
        if (!in_child_(*address)) return true;
        in_doubt_ = in_doubt_ || (!taken && in_parent_(*address));
        return false;
    }

    const Missing& before_;
    std::span<const Event> batch_;
    const Registered& in_child_;
    const Registered& in_parent_;
    bool in_doubt_ = false;
};

}  // namespace

std::optional<Missing> apply_all(const Missing& before, std::span<const Event> batch) {
    Missing cut = before;
    for (const auto& event : batch) {
        if (event.kind == Change::fork) continue;
        for (const auto& range : {source(event), destination(event)}) {
            cut.split(range.start);
            cut.split(range.end);
        }
    }
    Missing after;
    for (const auto& [start, piece] : cut.pieces()) {
        const auto what = fate(start, batch);
        if (what.in_doubt) return std::nullopt;
        if (what.moved != nullptr) {
            const auto by = what.moved->to - what.moved->from;
            after.add(start + by, {piece.end + by, piece.run, piece.skip});
        } else if (!what.gone && !arrives_at(start, batch)) {
            after.add(start, piece);
        }
    }
    return after;
}

bool order_matters(std::span<const Event> batch) {
    for (auto a = batch.begin(); a != batch.end(); ++a) {
        for (auto b = a + 1; b != batch.end(); ++b) {
            if (a->kind == Change::fork || b->kind == Change::fork) return true;
            const bool one_call =
                a->kind == Change::remap && b->kind == Change::unmap && source(*a) == source(*b);
            if (one_call) continue;
            for (const auto& first : {source(*a), destination(*a)})
                for (const auto& second : {source(*b), destination(*b)})
                    if (first.overlaps(second)) return true;
        }
    }
    return false;
}

std::optional<Missing> missing_at_birth(const Missing& before, std::span<const Event> batch,
                                        const Registered& in_child, const Registered& in_parent) {
    // MREMAP_DONTUNMAP: the old place stays registered, and doesn't tell whether the move has happened.
    for (const auto& event : batch)
        if (event.kind == Change::remap && std::ranges::none_of(batch, [&](const Event& other) {
                return other.kind == Change::unmap && source(other) == source(event);
            }))
            return std::nullopt;
    const auto events = Inherited(before, batch, in_child, in_parent).events();
    return events ? apply_all(before, *events) : std::nullopt;
}

}  // namespace cairn::restart::pages
