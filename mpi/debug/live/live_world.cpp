#include "mpi/debug/live/live_world.h"

#include <algorithm>
#include <chrono>
#include <numeric>
#include <optional>

#include "mpi/tool/stops.h"

namespace cairn::mpi::debug::live {
namespace {

std::uint64_t events_of(const Cut& cut) {
    return std::accumulate(cut.begin(), cut.end(), std::uint64_t{0});
}

bool before_or_at(const Cut& a, const Cut& b) {
    return std::ranges::equal(a, b, [](Position mine, Position theirs) { return mine <= theirs; });
}

}  // namespace

LiveWorld::LiveWorld(const Computation& computation, Bounds bounds, Job& job,
                     std::function<void(const std::string&)> note)
    : World(computation),
      bounds_(bounds),
      job_(job),
      note_(std::move(note)),
      here_(computation.processes()) {}

// Of running between two checkpoints: they cost a fifth of it, and up to two where a way is shorter than
// foreseen.
double LiveWorld::interval() const {
    constexpr double share = 5;
    double longest = 0;
    for (const Kept& each : kept_) longest = std::max(longest, each.checkpoint.seconds);
    return std::max(bounds_.back_within / 2, longest * share);
}

const LiveWorld::Kept* LiveWorld::nearest(const Cut& cut) const {
    const Kept* best = nullptr;
    for (const Kept& each : kept_)
        if (before_or_at(each.cut, cut)) best = &each;
    return best;
}

// A consistent cut on the way there, about as far as the job comes in the time between two checkpoints.
Cut LiveWorld::next_on_the_way(const Cut& cut) const {
    Process farthest = 0;
    const auto way = [&](Process rank) { return cut[rank] - std::min(here_[rank], cut[rank]); };
    for (Process rank = 0; rank < ranks(); ++rank)
        if (way(rank) > way(farthest)) farthest = rank;
    const Position left = way(farthest);
    // As long as nobody knows how fast it is, a short way.
    constexpr double first = 64;
    double most = seconds_ > 0
                      ? interval() * static_cast<double>(events_) / seconds_ / static_cast<double>(ranks())
                      : first;
    if (bounds_.every != 0) most = std::min(most, static_cast<double>(bounds_.every));
    if (static_cast<double>(left) < most * 1.5) return causality::join(here_, cut);
    const Position to = here_[farthest] + static_cast<Position>(std::max(most, 1.0));
    const Cut next = causality::join(here_, moves().all({farthest, to}));
    // A recovery line may be without what its probes have found.
    Cut within = cut;
    for (Process rank = 0; rank < ranks(); ++rank)
        within[rank] = std::max(here_[rank], std::min(within[rank], next[rank]));
    return within;
}

void LiveWorld::keep() {
    since_ = 0;
    events_since_ = 0;
    if (!saving_ || std::ranges::any_of(kept_, [&](const Kept& each) { return each.cut == here_; })) return;
    auto saved = job_.save();
    if (!saved) {
        // The first is the only way back.
        saving_ = kept_.empty();
        note_(fmt::format("no more checkpoints are taken: {}", saved.error().what));
        return;
    }
    const auto at =
        std::ranges::find_if(kept_, [&](const Kept& each) { return events_of(each.cut) > events_of(here_); });
    kept_.insert(at, {here_, std::move(*saved)});
    thin_out();
}

// As in a History: dense near where the job stands, sparser the farther away.
void LiveWorld::thin_out() {
    const auto at = [&](std::size_t i) { return static_cast<double>(events_of(kept_[i].cut)); };
    while (kept_.size() > bounds_.checkpoints + 1U) {
        std::size_t worst = 0;
        double least = 0;
        const double here = static_cast<double>(events_of(here_));
        for (std::size_t i = 1; i < kept_.size(); ++i) {
            if (kept_[i].cut == here_ && kept_.size() > 2) continue;
            const double gap = at(i + 1 < kept_.size() ? i + 1 : i) - at(i - 1);
            const double score = gap / (std::abs(here - at(i)) + 1);
            if (worst != 0 && score >= least) continue;
            worst = i;
            least = score;
        }
        job_.remove(kept_[worst].checkpoint);
        kept_.erase(kept_.begin() + static_cast<std::ptrdiff_t>(worst));
    }
}

Result<Cut> LiveWorld::bring(Cut cut, Process focus) {
    if (kept_.empty()) {
        keep();
        if (kept_.empty()) return fail("the job can't be saved at its beginning, so there is no way back");
    }
    if (const auto known = beyond_.find(cut); known != beyond_.end()) cut = known->second;
    if (auto done = bring_to(cut, focus); !done) {
        lost_ = true;
        return std::unexpected(std::move(done).error());
    }
    if (here_ != cut) beyond_.emplace(std::move(cut), here_);
    return here_;
}

// Those who stand behind one event more, but nobody's past has more of the one in focus than `end`.
Result<Cut> LiveWorld::beyond(const Cut& cut, Process focus, Position end) const {
    Cut farther = cut;
    std::string who;
    for (Process rank = 0; rank < ranks(); ++rank) {
        const Standing state = job_.standing(static_cast<int>(rank));
        if (!state.there && state.stack[0][0] != 0)
            who += fmt::format("{}rank {} waits in {} for others", who.empty() ? "" : ", ", rank,
                               state.stack[0]);
        if (!state.there || cut[rank] == moves().computation().size(rank)) continue;
        const Cut needed = moves().all({rank, cut[rank] + 1});
        if (needed[focus] <= end) farther = causality::join(farther, needed);
    }
    if (farther != cut) return farther;
    return fail_code(ExitCode::refused, "{}, who can't go on as long as rank {} stands here", who, focus);
}

// Messages aren't all that the ranks wait for. The one in focus stays where it stands only when that is its
// `end`: on the way there others may wait for it as for anybody.
Result<> LiveWorld::run_to(const Cut& cut, Process focus, Position end) {
    Cut to = cut;
    const auto stays = [&] { return to[focus] < end ? std::nullopt : std::optional(focus); };
    while (!TRY(job_.run_to(tool::stops_of(moves().computation(), to), to, stays()))) {
        auto farther = beyond(to, focus, end);
        if (!farther && TRY(job_.wait_on())) break;
        if (!farther) return std::unexpected(std::move(farther).error());
        to = std::move(*farther);
    }
    here_ = std::move(to);
    return {};
}

Result<> LiveWorld::bring_to(const Cut& cut, Process focus) {
    if (!lost_ && here_ == cut) return {};
    const Kept* last = nearest(cut);
    if (lost_ || !before_or_at(here_, cut)) {
        CHECK_OK(job_.bring_back(last->checkpoint));
        here_ = last->cut;
        lost_ = false;
        since_ = 0;
        events_since_ = 0;
    }
    while (!before_or_at(cut, here_)) {
        const Cut next = next_on_the_way(cut), before = here_;
        const auto began = std::chrono::steady_clock::now();
        CHECK_OK(run_to(next, focus, cut[focus]));
        const double took = std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
        const std::uint64_t passed = events_of(here_) - events_of(before);
        seconds_ += took;
        events_ += passed;
        since_ += took;
        events_since_ += passed;
        const bool many = bounds_.every != 0 && events_since_ >= bounds_.every * ranks();
        if (bounds_.checkpoints > 0 && (many || since_ >= interval() / 2)) keep();
    }
    return {};
}

// A replay tells a receive from any source at once whose message it gets. Who has sent it by then keeps to
// that; but if the receive stands open for one that isn't sent, another could come first.
Result<> LiveWorld::can_be_left(Process rank) const {
    const Computation& c = moves().computation();
    std::map<std::uint32_t, Index> open;  // by request
    for (Position i = 0; i < c.size(rank); ++i) {
        const Index index = c.first(rank) + i;
        const auto& event = c.event(index);
        const bool wild = event.has(causality::Flag::any_source) || event.has(causality::Flag::any_tag);
        if (event.kind == causality::Kind::post && wild && i < here_[rank]) open[event.request] = index;
        const auto found = open.find(event.request);
        if (found == open.end() || event.kind == causality::Kind::post) continue;
        if (i >= here_[rank] && event.kind == causality::Kind::receive) {
            const Index sent = c.partner(index);
            if (sent == causality::none || c.id(sent).position >= here_[c.id(sent).process]) continue;
        }
        open.erase(found);
    }
    for (const auto& [request, index] : open)
        return fail_code(
            ExitCode::refused,
            "{}: this receive stands open here, its message isn't sent yet, and the replay has asked "
            "for the recorded one: leave where it isn't open",
            moves().text(index));
    return {};
}

Result<> LiveWorld::can_be_left() const {
    if (const auto bound = job_.bound(); !bound.empty())
        return fail_code(
            ExitCode::refused,
            "rank {} can't leave its record: it has several threads, a recorded clock, or persistent "
            "receives from any source or with any tag",
            bound.front());
    for (Process rank = 0; rank < ranks(); ++rank) CHECK_OK(can_be_left(rank));
    return {};
}

std::vector<Position> LiveWorld::checkpointed(Process rank) {
    std::vector<Position> positions;
    for (const auto& each : kept_) positions.push_back(each.cut[rank]);
    return positions;
}

Result<std::string> LiveWorld::leave(const std::string& folder) {
    CHECK_OK(stand_at(cut()));
    CHECK_OK(can_be_left());
    lost_ = true;
    return job_.leave(folder);
}

Result<World::Stand> LiveWorld::stand(Process rank) {
    CHECK_OK(stand_at(cut()));
    const Standing state = job_.standing(static_cast<int>(rank));
    return Stand{.event = state.event,
                 .position = state.position,
                 .within = state.inside != 0,
                 .pid = static_cast<pid_t>(state.pid),
                 .frame = 0,
                 .stack = state.stack};
}

Result<World::Looked> LiveWorld::look_into(Process rank) {
    const Stand there = TRY(stand(rank));
    if (there.pid <= 0)
        return fail_code(ExitCode::refused, "rank {} waits in {}, and doesn't say which process it is", rank,
                         there.stack.empty() ? "a call" : there.stack.front());
    return Looked{std::nullopt, there.pid};
}

}  // namespace cairn::mpi::debug::live
