#include "capture/strangers.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <iterator>
#include <map>
#include <optional>
#include <string_view>
#include <thread>

#include "capture/reach.h"
#include "common/agent.h"
#include "common/elf_check.h"
#include "common/human.h"
#include "common/inner_ids.h"
#include "common/outside_mark.h"
#include "common/proc.h"
#include "common/region_ops.h"

namespace cairn::capture {
namespace {

using namespace std::chrono_literals;
using LookClock = std::chrono::steady_clock;

constexpr unsigned long pf_kthread = 0x00200000, pf_forknoexec = 0x40, pf_exiting = 0x4;  // linux/sched.h

// How long a process may be there without a slot: it is being born, or executes and its loader has not come
// as far as libcairn.so.
constexpr auto longest_birth = 300ms;
constexpr auto loading = 3s;

std::string folder_of(const std::string& path) {
    return path.substr(0, path.rfind('/'));
}

bool is_word(std::string_view environment, std::string_view word) {
    for (std::size_t at = 0; (at = environment.find(word, at)) != std::string_view::npos; ++at) {
        const bool begins = at == 0 || environment[at - 1] == '\0';
        const std::size_t end = at + word.size();
        if (begins && (end == environment.size() || environment[end] == '\0')) return true;
    }
    return false;
}

bool has_gone(const proc::Stat& stat, pid_t pid) {
    if (stat.state == 'X') return true;
    return stat.state == 'Z' && proc::tasks(pid).value_or(std::vector<pid_t>{}).size() <= 1;
}

// May we look into it? A set-id program is another user's.
bool is_readable(pid_t pid) {
    return proc::read_file(fmt::format("/proc/{}/environ", proc::living_thread(pid))).has_value();
}

bool maps_session(pid_t pid, const std::string& region) {
    // As text: most processes have many lines and none of ours.
    const auto text = proc::read_file(fmt::format("/proc/{}/maps", pid));
    if (!text || text->find("/libcairn.so") == std::string::npos) return false;
    return text->find(region + "\n") != std::string::npos ||
           text->find(region + " (deleted)\n") != std::string::npos;
}

// A restored process still has the environment of the session that it was started in: the region that it has
// mapped tells which one it is in now.
bool is_in_another_session(pid_t pid, const std::string& region) {
    const auto lines = proc::maps(pid, false).value_or(std::vector<proc::MapLine>{});
    const auto library =
        std::ranges::any_of(lines, [](const auto& line) { return line.name.ends_with("/libcairn.so"); });
    return library && std::ranges::any_of(lines, [&](const auto& line) {
               return line.shared && line.name.ends_with("/region") && line.name != region;
           });
}

struct StrangerLook {
    std::map<pid_t, proc::Stat> stats;

    const proc::Stat* stat_of(pid_t pid) {
        auto found = stats.find(pid);
        if (found == stats.end()) {
            auto stat = proc::stat(pid);
            if (!stat) return nullptr;
            found = stats.emplace(pid, std::move(*stat)).first;
        }
        return &found->second;
    }
};

// Whose descendant a process is: of a member, of one outside, of nobody whom we know.
struct Kin {
    Strangers::Known ancestor = Strangers::Known::no;
    pid_t who = 0;
    bool forked_only = true;  // has its ancestor's memory: nobody has execed in between
};
Kin kin_of(StrangerLook& looked, pid_t pid, const std::function<Strangers::Known(pid_t)>& known) {
    Kin kin;
    const proc::Stat* stat = looked.stat_of(pid);
    for (int depth = 0; stat != nullptr && stat->ppid > 1 && depth < 10'000; ++depth) {
        kin.forked_only = kin.forked_only && has_only_forked(*stat);
        kin.who = stat->ppid;
        kin.ancestor = known(kin.who);
        if (kin.ancestor != Strangers::Known::no) return kin;
        stat = looked.stat_of(kin.who);
    }
    return kin;
}

}  // namespace

Strangers::Strangers(std::string region, bool visits, std::function<Known(pid_t)> known, Crowd without_place,
                     std::function<bool(pid_t)> may_claim)
    : region_(std::move(region)),
      known_(std::move(known)),
      without_place_(std::move(without_place)),
      may_claim_(std::move(may_claim)),
      visits_(visits) {}

namespace {

struct StrangerSearch {
    const std::string& region;
    const std::function<Strangers::Known(pid_t)>& known;
    const std::set<pid_t>& left_out;
    const Strangers::Crowd& without_place;
    const std::function<bool(pid_t)>& may_claim;
    const bool visits;
    StrangerLook looked;
    std::vector<Strangers::Stranger> orphans;  // to be given the library, and no member leads to them
    std::vector<Strangers::Stranger> forked;   // members' children who haven't execed

    std::optional<Strangers::Stranger> judge(pid_t pid) {
        if (pid == ::getpid() || left_out.contains(pid) || known(pid) != Strangers::Known::no)
            return std::nullopt;
        const proc::Stat* stat = looked.stat_of(pid);
        if (stat == nullptr || (stat->flags & pf_kthread) != 0 || has_gone(*stat, pid)) return std::nullopt;
        if (is_marked_outside(pid)) return std::nullopt;
        if (is_snapshot(*stat, pid)) return std::nullopt;
        const auto kin = kin_of(looked, pid, known_or_left_out());
        std::string why;
        if (kin.ancestor == Strangers::Known::member) {
            // With a member's memory it has the library as well: the stop finds it, or, if it shares that
            // memory (vfork), waits for it.
            if (kin.forked_only) {
                forked.push_back({pid, stat->start_time,
                                  fmt::format("a descendant of {}, {}", proc::label(kin.who), no_place)});
                return std::nullopt;
            }
            why = fmt::format("a descendant of {}", proc::label(kin.who));
        } else if (may_claim(pid)) {
            const auto environment = proc::read_file(fmt::format("/proc/{}/environ", pid));
            if (environment && is_word(*environment, std::string(env_region) + "=" + region) &&
                !is_in_another_session(pid, region))
                why = "executed in this session (CAIRN_REGION)";
            else if (maps_session(pid, region))
                why = "with libcairn.so and this session's region in its memory";
        }
        if (why.empty() || (kin.ancestor == Strangers::Known::outside && !maps_session(pid, region)))
            return std::nullopt;
        // Our own programs, used by a program of the session.
        if (is_own_program(pid)) return std::nullopt;
        const auto expected = expects_library(pid);
        // It will be given the library when it stands still. Where the user wants to have those left out who
        // haven't registered, that is one of them.
        if (visits && expected == LibraryExpected::no && is_readable(pid)) {
            if (kin.ancestor != Strangers::Known::member)
                orphans.push_back({pid, stat->start_time, std::move(why)});
            return std::nullopt;
        }
        if (!without_place({pid}).empty() && expected == LibraryExpected::yes)
            why += fmt::format(", {}", no_place);
        return Strangers::Stranger{pid, stat->start_time, std::move(why)};
    }

    std::function<Strangers::Known(pid_t)> known_or_left_out() {
        return [this](pid_t pid) {
            if (left_out.contains(pid)) return Strangers::Known::outside;
            const auto as = known(pid);
            return as == Strangers::Known::no && is_marked_outside(pid) ? Strangers::Known::outside : as;
        };
    }
};

}  // namespace

bool Strangers::still(const Stranger& stranger) const {
    const auto stat = proc::stat(stranger.pid);
    return stat && stat->start_time == stranger.started && !has_gone(*stat, stranger.pid) &&
           known_(stranger.pid) == Known::no;
}

std::vector<Strangers::Stranger> Strangers::look() {
    std::vector<Stranger> suspects;
    StrangerSearch search{region_, known_, left_out_, without_place_, may_claim_, visits_, {}, {}, {}};
    seen_.clear();
    for (const pid_t pid : proc::processes()) {
        seen_.insert(pid);
        if (auto found = search.judge(pid)) suspects.push_back(std::move(*found));
    }
    for (auto& each : crowded(std::move(search.forked))) suspects.push_back(std::move(each));
    const auto began = LookClock::now();
    for (auto nap = 2ms; !suspects.empty(); nap = std::min(2 * nap, 50ms)) {
        std::this_thread::sleep_for(nap);
        std::erase_if(suspects, [this](const Stranger& each) { return !still(each); });
        const auto passed = LookClock::now() - began;
        if (passed > loading ||
            (passed > longest_birth && std::ranges::none_of(suspects, [this](const Stranger& each) {
                 return expects_library(each.pid) != LibraryExpected::no &&
                        without_place_({each.pid}).empty();
             })))
            break;
    }
    // What it was when it was seen first may be another program by now: fork and exec.
    std::vector<Stranger> left;
    StrangerSearch again{region_, known_, left_out_, without_place_, may_claim_, visits_, {}, {}, {}};
    for (const auto& each : suspects) {
        if (expects_library(each.pid) == LibraryExpected::undecided)
            seen_.erase(each.pid);  // to be looked at while everybody stands still
        else if (auto found = again.judge(each.pid))
            left.push_back(std::move(*found));
    }
    for (auto& each : crowded(std::move(again.forked))) left.push_back(std::move(each));
    orphans_.clear();
    for (const auto* found : {&search.orphans, &again.orphans})
        for (const auto& each : *found) orphans_.push_back(each.pid);
    return left;
}

std::vector<Strangers::Stranger> Strangers::crowded(std::vector<Stranger> forked) const {
    std::vector<pid_t> pids;
    for (const auto& each : forked) pids.push_back(each.pid);
    const auto crowd = without_place_(pids);
    std::erase_if(forked,
                  [&](const Stranger& each) { return std::ranges::find(crowd, each.pid) == crowd.end(); });
    return forked;
}

std::vector<Strangers::Stranger> Strangers::look_at_new() {
    std::vector<Stranger> found;
    StrangerSearch search{region_, known_, left_out_, without_place_, may_claim_, visits_, {}, {}, {}};
    for (const pid_t pid : proc::processes()) {
        if (!seen_.insert(pid).second) continue;
        if (auto each = search.judge(pid)) found.push_back(std::move(*each));
    }
    std::ranges::move(search.orphans, std::back_inserter(found));
    return found;
}

void Strangers::leave_out(const std::vector<Stranger>& strangers) {
    for (const auto& each : strangers) left_out_.insert(each.pid);
}

std::vector<pid_t> without_place(const SessionRegions& regions, const std::vector<pid_t>& pids) {
    std::map<const SessionRegion*, std::vector<pid_t>> by_region;
    for (const pid_t pid : pids)
        if (const SessionRegion* region = regions.of(pid); region != nullptr)
            by_region[region].push_back(pid);
    std::vector<pid_t> crowd;
    for (const auto& [region, those] : by_region)
        if (those.size() > places_left(*region->region))
            crowd.insert(crowd.end(), those.begin(), those.end());
    return crowd;
}

std::string describe_strangers(const std::vector<Strangers::Stranger>& strangers) {
    std::string text;
    constexpr std::size_t most = 20;
    for (std::size_t i = 0; i < strangers.size() && i < most; ++i)
        text += fmt::format("{}{}, {}", text.empty() ? "" : "; ", proc::label(strangers[i].pid),
                            strangers[i].why);
    if (strangers.size() > most)
        text += fmt::format("; and {}", human_count(strangers.size() - most, "other", "others"));
    return text;
}

bool is_marked_outside(pid_t pid) {
    const auto environment = proc::read_file(fmt::format("/proc/{}/environ", proc::living_thread(pid)));
    return environment && is_word(*environment, outside_mark);
}

bool is_own_program(pid_t pid) {
    static const std::string own = folder_of(proc::read_link("/proc/self/exe").value_or("/"));
    const auto exe = proc::read_link(fmt::format("/proc/{}/exe", pid));
    return exe && (folder_of(*exe) == own || exe->ends_with("/bin/cairn"));
}

// Its exit signal doesn't tell while it lives: the kernel gives it one when init becomes its parent.
bool is_snapshot(const proc::Stat& stat, pid_t pid) {
    return stat.comm == snapshot_name && stat.session == pid && has_only_forked(stat);
}

bool has_only_forked(const proc::Stat& stat) {
    return (stat.flags & pf_forknoexec) != 0;
}

// Static programs and those of another libc are executed with LD_PRELOAD as all others are, and don't heed
// it. Those of which nothing can be said are given time.
bool heeds_preload(pid_t living) {
    const auto link = fmt::format("/proc/{}/exe", living);
    if (!check_program(AT_FDCWD, link.c_str()).without_library()) return true;
    const auto target = proc::read_link(link);
    return target && elf_check_detail::glibc_loader(target->c_str());
}

LibraryExpected expects_library(pid_t pid) {
    const pid_t living = proc::living_thread(pid);
    const auto environment = proc::read_file(fmt::format("/proc/{}/environ", living));
    // In a pid namespace of its own the library joins nobody: its ids would be other processes' outside.
    if (environment && preloads_library(*environment) && heeds_preload(living) && !proc::in_inner_pids(pid) &&
        can_join(living, *environment) && !has_done_without(living, *environment))
        return LibraryExpected::yes;
    if (!environment && environment.error().number != EACCES && environment.error().number != EPERM)
        return LibraryExpected::undecided;  // ESRCH since Linux 5.x where the memory has gone
    const auto stat = proc::stat(living);
    if (!stat || (stat->flags & pf_exiting) != 0) return LibraryExpected::undecided;
    // execve gives a process its new, empty memory first, and says last where its environment is
    // (create_elf_tables, fs/binfmt_elf.c); in between it reads the program and its loader from their disk.
    if (environment && environment->empty() && !stat->env_end.known()) return LibraryExpected::undecided;
    return LibraryExpected::no;
}

}  // namespace cairn::capture
