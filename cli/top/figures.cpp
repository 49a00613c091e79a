#include "cli/top/figures.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <optional>
#include <set>

#include "cli/member_memory.h"
#include "common/proc.h"

namespace cairn::top {
namespace {

struct StatLine {
    char state = '?';
    std::uint64_t faults = 0, ticks = 0, started = 0;
};

// Fields 3 to 22 of /proc/PID/stat: state ppid pgrp session tty tpgid flags minflt cminflt majflt cmajflt
// utime stime cutime cstime priority nice threads itrealvalue starttime.
std::optional<StatLine> stat_line(pid_t pid) {
    const auto text = proc::read_file(fmt::format("/proc/{}/stat", pid));
    const auto name_end = text ? text->rfind(')') : std::string::npos;
    if (name_end == std::string::npos) return std::nullopt;
    StatLine line;
    unsigned long faults = 0, user = 0, system = 0;
    unsigned long long started = 0;
    if (std::sscanf(text->c_str() + name_end + 1,
                    " %c %*d %*d %*d %*d %*d %*u %lu %*u %*u %*u %lu %lu %*d %*d %*d %*d %*d %*d %llu",
                    &line.state, &faults, &user, &system, &started) != 5)
        return std::nullopt;
    line.faults = faults;
    line.ticks = user + system;
    line.started = started;
    return line;
}

}  // namespace

void Figures::fill(std::vector<ProcessRow>& rows) {
    static const double tick = 1.0 / static_cast<double>(::sysconf(_SC_CLK_TCK));
    static const auto page = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
    std::set<pid_t> there;
    for (ProcessRow& row : rows) {
        if (!row.here) continue;
        const pid_t pid = row.process.real.number();
        const auto line = stat_line(pid);
        if (!line) continue;
        const auto now = std::chrono::steady_clock::now();
        there.insert(pid);
        row.memory = member_memory(pid);
        row.run_state = line->state;
        const auto [place, is_new] = known_.try_emplace(pid);
        Known& known = place->second;
        if (is_new || known.started != line->started) {
            known = {};
            // Born since: no checkpoint has any of it.
            if (counting_ && !row.process.restored) known.faults_at_checkpoint = 0;
        }
        const std::chrono::duration<double> passed = now - known.at;
        if (known.started != 0 && passed.count() > 0)
            row.cpu = 100 * tick * static_cast<double>(line->ticks - std::min(known.ticks, line->ticks)) /
                      passed.count();
        if (known.faults_at_checkpoint)
            row.dirty = std::min((line->faults - std::min(*known.faults_at_checkpoint, line->faults)) * page,
                                 row.memory);
        known.started = line->started;
        known.ticks = line->ticks;
        known.at = now;
    }
    std::erase_if(known_, [&](const auto& each) { return !there.contains(each.first); });
}

void Figures::begin_counting() {
    counting_ = true;
    for (auto& [pid, known] : known_)
        if (const auto line = stat_line(pid); line && line->started == known.started)
            known.faults_at_checkpoint = line->faults;
}

}  // namespace cairn::top
