#include "restart/heirs/find.h"

#include <sys/resource.h>

#include <algorithm>
#include <cstdlib>
#include <set>
#include <string>
#include <string_view>

#include "common/cpu_clock.h"
#include "resources/pidfd/schema.h"
#include "resources/restore/opening.h"
#include "restart/rebuild/parameters.h"

namespace cairn::restart {
namespace {

// A birth by the parent costs a process that stands in for the heir's descriptors; what is shared is worth it
// from here on. Shells and their subshells stay below.
constexpr std::uint64_t worth_inheriting = std::uint64_t{4} << 20;

// For tests: CAIRN_INHERIT=always makes an heir of whoever has any page in common with its parent, so that
// every kind of object comes back that way, and CAIRN_INHERIT=never of nobody.
std::uint64_t least_to_inherit() {
    const char* wish = std::getenv("CAIRN_INHERIT");
    const std::string_view said = wish == nullptr ? "" : wish;
    return said == "always" ? 1 : said == "never" ? UINT64_MAX : worth_inheriting;
}

// Always of the parent, who may have borrowed it in turn.
std::uint64_t borrowed_of(const schema::Process& process) {
    std::uint64_t bytes = 0;
    for (const auto& area : process.areas)
        if (area.borrowed)
            for (const auto& part : *area.borrowed)
                for (const auto& run : part.pages) bytes += part.from == process.pid ? 0 : run.length;
    return bytes;
}

class Search {
  public:
    Search(const std::vector<schema::Process>& processes, const schema::Objects& objects)
        : processes_(processes) {
        for (const auto& process : processes) {
            by_id_[process.pid] = &process;
            ++members_[process.pgid];
            ++members_[process.sid];
            for (const auto& timer : process.timers)
                if (names_task(timer.clock)) named_.insert(task_of<ProgramId>(timer.clock));
        }
        for (const auto& object : objects.objects) {
            if (const auto* pidfd = object.get<schema::Pidfd>()) named_.insert(pidfd->pid);
            if (is_late(object)) late_.insert(object.id);
            add_named_by(object.path);
        }
    }

    Heirs run() const {
        Heirs heirs;
        for (const auto& process : processes_)
            if (const auto* parent = parent_of(process)) heirs.emplace(process.pid, parent->pid);
        // The forest makes no children for somebody who isn't there yet.
        const auto has_other_child = [&](const auto& heir) {
            return std::ranges::any_of(processes_, [&](const schema::Process& child) {
                return child.ppid == heir.first && !heirs.contains(child.pid);
            });
        };
        while (std::erase_if(heirs, has_other_child) > 0) {
        }
        return heirs;
    }

  private:
    // Files of /proc/PID are opened before heirs are there.
    void add_named_by(const std::string& path) {
        constexpr std::string_view proc = "/proc/";
        if (path.starts_with(proc)) named_.insert(ProgramId(std::atoi(path.c_str() + proc.size())));
    }

    // Two numbers besides are needed to take the others from the stand-in, and some for the restorer.
    [[nodiscard]] static bool has_room(const schema::Process& process) {
        constexpr std::size_t besides = 64;
        rlimit limit{};
        return ::getrlimit(RLIMIT_NOFILE, &limit) == 0 &&
               process.descriptors.size() + process.areas.size() + besides <= limit.rlim_cur;
    }

    [[nodiscard]] static bool is_plain(const schema::Process& process) {
        // In a pid namespace the forest alone gives ids.
        if (process.own_pids || process.children_pids || process.empty_pids) return false;
        return process.run == schema::Run::running && !process.threads.front().leader_dead &&
               std::ranges::none_of(process.threads,
                                    [](const auto& each) { return each.tracing.has_value(); }) &&
               std::ranges::none_of(process.areas, is_of_a_ring);
    }

    // The group that a birth gives it, or one of its own that nobody else is in.
    [[nodiscard]] bool can_have_group(const schema::Process& heir, const schema::Process& parent) const {
        if (heir.pgid == parent.pgid) return members_.find(heir.pid) == members_.end();
        const bool alone = heir.pgid == heir.pid && members_.at(heir.pid) == 1;
        const bool foreground = heir.terminal >= 0 && heir.foreground == heir.pgid;
        return alone && !foreground;
    }

    [[nodiscard]] bool opens_by_itself(const schema::Process& process) const {
        return std::ranges::any_of(process.descriptors,
                                   [&](const auto& descriptor) { return late_.contains(descriptor.object); });
    }

    // Null: it is no heir.
    [[nodiscard]] const schema::Process* parent_of(const schema::Process& heir) const {
        const auto found = by_id_.find(heir.ppid);
        if (found == by_id_.end() || found->second->run == schema::Run::zombie) return nullptr;
        const auto& parent = *found->second;
        const bool same = heir.sid == parent.sid && heir.executable == parent.executable &&
                          heir.io_uring_off == parent.io_uring_off &&
                          heir.thp_disable == parent.thp_disable &&
                          heir.thp_disable_flags == parent.thp_disable_flags &&
                          heir.protection_keys == parent.protection_keys &&
                          heir.state_permission == parent.state_permission;
        if (!same || !is_plain(heir) || !is_plain(parent) || !can_have_group(heir, parent)) return nullptr;
        if (named_.contains(heir.pid) || opens_by_itself(heir) || !has_room(heir)) return nullptr;
        return borrowed_of(heir) >= least_ ? &parent : nullptr;
    }

    const std::vector<schema::Process>& processes_;
    const std::uint64_t least_ = least_to_inherit();
    std::map<ProgramId, const schema::Process*> by_id_;
    std::map<ProgramId, int> members_;  // of each group and session; a leader of both counts twice
    std::set<ProgramId> named_;         // by objects and timers, which are made before heirs are there
    std::set<std::int64_t> late_;       // objects that only a process itself can open
};

}  // namespace

Heirs find_heirs(const std::vector<schema::Process>& processes, const schema::Objects& objects) {
    return Search(processes, objects).run();
}

}  // namespace cairn::restart
