#include "causality/recovery.h"

#include <algorithm>

namespace cairn::causality {

Zigzag::Line Zigzag::recovery_line(std::span<const Process> failed) const {
    std::vector<Node> lost;
    std::vector<std::uint32_t> kept(processes());  // the last checkpoint that there is
    for (Process p = 0; p < processes(); ++p) kept[p] = intervals(p);
    for (const Process p : failed) {
        lost.push_back(node(p, intervals(p)));
        kept[p] = intervals(p) - 1;
    }
    std::vector<std::uint32_t> depth;
    Line found;
    found.line = reach(lost, &depth);
    for (Process p = 0; p < processes(); ++p) {
        const std::uint32_t number = --found.line[p];
        const std::uint32_t undone = kept[p] - number;
        found.undone += undone;
        found.most_undone = std::max(found.most_undone, undone);
        if (undone > 0 && number == 0) ++found.to_start;
        found.rounds = std::max(found.rounds, depth[p]);
    }
    return found;
}

// Whatever happens later begins in the intervals that are open now: a later recovery undoes closed intervals
// only by edges out of open ones, and an open one is undone as a whole or not at all. So the closed intervals
// that a later recovery undoes are those that the failure of some of today's processes undoes, and the line
// of several failures is the minimum of theirs.
std::vector<std::vector<std::uint32_t>> Zigzag::needed() const {
    std::vector<std::vector<std::uint32_t>> found(processes());
    for (Process failed = 0; failed < processes(); ++failed) {
        const Process one[] = {failed};
        const Line line = recovery_line(one);
        for (Process p = 0; p < processes(); ++p)
            if (line.line[p] < intervals(p)) found[p].push_back(line.line[p]);
    }
    for (auto& each : found) {
        std::sort(each.begin(), each.end());
        each.erase(std::unique(each.begin(), each.end()), each.end());
    }
    return found;
}

GlobalCheckpoint global_of_date(std::span<const std::vector<DatedCheckpoint>> stored, std::uint32_t date) {
    GlobalCheckpoint global;
    for (const auto& mine : stored) {
        const auto found =
            std::find_if(mine.begin(), mine.end(), [&](const auto& c) { return c.date >= date; });
        global.push_back(
            static_cast<std::uint32_t>((found == mine.end() ? found - 1 : found) - mine.begin()));
    }
    return global;
}

GlobalCheckpoint global_of_date_sent(std::span<const std::vector<DatedCheckpoint>> stored,
                                     std::uint32_t date) {
    GlobalCheckpoint global;
    for (const auto& mine : stored) {
        std::uint32_t at = 0;
        while (at + 1 < mine.size() && mine[at + 1].date <= date) ++at;
        if (at + 1 < mine.size() && mine[at + 1].first_sent != none && mine[at + 1].first_sent < date) ++at;
        global.push_back(at);
    }
    return global;
}

GlobalCheckpoint global_of_vector(std::span<const std::uint32_t> vector, Checkpoint c,
                                  std::span<const std::uint32_t> last) {
    GlobalCheckpoint global(vector.begin(), vector.end());
    for (Process p = 0; p < global.size(); ++p) global[p] = std::min(global[p], last[p] + 1);
    global[c.process] = c.number;
    return global;
}

GlobalCheckpoint concurrent_line(std::span<const std::vector<LoggedCheckpoint>> stored) {
    const auto n = static_cast<Process>(stored.size());
    GlobalCheckpoint line;
    for (const auto& mine : stored) line.push_back(static_cast<std::uint32_t>(mine.size() - 1));
    // c_i precedes c_j iff c_j knows of c_i. Stepping back makes others' steps no smaller: one at a time is
    // enough.
    for (bool moved = true; moved;) {
        moved = false;
        for (Process j = 0; j < n; ++j)
            for (Process i = 0; i < n; ++i) {
                if (i == j) continue;
                const std::uint32_t mark = stored[i][line[i]].checkpoints[i];
                while (line[j] > 0 && stored[j][line[j]].checkpoints[i] >= mark) {
                    --line[j];
                    moved = true;
                }
            }
    }
    return line;
}

std::vector<LoggedMessage> channel_state(std::span<const std::vector<LoggedCheckpoint>> stored,
                                         const GlobalCheckpoint& line, Process from, Process to) {
    const std::uint32_t sent = stored[from][line[from]].sent[to];
    const std::uint32_t received = stored[to][line[to]].received[from];
    std::vector<LoggedMessage> messages;
    for (std::uint32_t x = 0; x <= line[from]; ++x)
        for (const LoggedMessage& each : stored[from][x].log)
            if (each.destination == to && each.number > received && each.number <= sent)
                messages.push_back(each);
    return messages;
}

void reclaim(std::span<std::vector<LoggedCheckpoint>> stored, const GlobalCheckpoint& line) {
    for (Process i = 0; i < stored.size(); ++i) {
        auto& mine = stored[i];
        std::vector<LoggedMessage> kept;
        for (std::uint32_t x = 0; x <= line[i]; ++x)
            for (const LoggedMessage& each : mine[x].log)
                if (each.number > stored[each.destination][line[each.destination]].received[i])
                    kept.push_back(each);
        mine[line[i]].log = std::move(kept);
    }
    for (Process i = 0; i < stored.size(); ++i)
        stored[i].erase(stored[i].begin(), stored[i].begin() + static_cast<std::ptrdiff_t>(line[i]));
}

}  // namespace cairn::causality
