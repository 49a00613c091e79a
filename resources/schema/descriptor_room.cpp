#include "resources/schema/descriptor_room.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <variant>

namespace cairn {
namespace {

using schema::Object;
using schema::Process;

constexpr std::uint64_t own = 16;  // the tool's: region, image, terminal, connections
constexpr int lowest_floor = 256;  // leaves room for what the tool and its children open themselves
// In a process: pidfds and what is fetched by them, files that are opened for the moment.
constexpr int spare = 32;

struct Highest {
    std::uint64_t number = lowest_floor - 1;
    const Process* whose = nullptr;
};

Highest highest_descriptor(std::span<const Process> processes) {
    Highest highest;
    for (const Process& process : processes)
        for (const schema::Descriptor& descriptor : process.descriptors)
            if (descriptor.fd.known() && static_cast<std::uint64_t>(descriptor.fd.number()) > highest.number)
                highest = {static_cast<std::uint64_t>(descriptor.fd.number()), &process};
    return highest;
}

bool waits_for_others(const Object& object) {
    return std::visit(
        [&](const auto& what) {
            if constexpr (requires { what.waits_for_others(true); })
                return what.waits_for_others(object.pipe >= 0 || object.outside);
            else
                return false;
        },
        object.what);
}

// Those that the tool can't give away one by one: sockets that wait for others; and what is kept in memory is
// filled, opened once more for each descriptor, and then made read-only.
std::uint64_t held_at_once(const schema::Objects& objects) {
    std::uint64_t sockets = 0, memory = 0;
    for (const Object& object : objects.objects) {
        if (object.is<schema::Memory>() || object.backing >= 0) ++memory;
        if (waits_for_others(object)) ++sockets;
    }
    return std::max(sockets, memory);
}

// By the tool's own standard descriptors, another one at each number.
bool may_be_replaced(const Object& object) {
    return object.standard.known() && (object.flags & O_ACCMODE) == O_RDWR;
}

int width_of(std::span<const Process> processes, const schema::Objects& objects) {
    std::size_t mapped = 0;
    std::set<std::uint32_t> users;
    for (const Process& process : processes) {
        mapped = std::max(mapped, needed_to_rebuild(process).size());
        users.insert(std::begin(process.uids), std::end(process.uids));
    }
    // Each of these may be three of the tool's own descriptors (Opening::stand_in).
    const auto standing_in = std::ranges::count_if(objects.objects, may_be_replaced);
    return static_cast<int>(mapped + users.size() + own) + static_cast<int>(3 * standing_in) + spare;
}

// How many descriptors would have to come last if the window began here; none: it can't be here.
std::optional<std::size_t> cost_of(const DescriptorRoom& window,
                                   const std::vector<std::vector<ProgramFd>>& numbers,
                                   const std::set<ProgramFd>& put_early) {
    const ProgramFd window_begin(window.floor), window_end(window.floor + window.width);
    const auto within = [&](const auto& sorted, auto from) {
        return from != sorted.end() && *from < window_end;
    };
    if (within(put_early, put_early.lower_bound(window_begin))) return std::nullopt;
    std::size_t most = 0;
    for (const auto& sorted : numbers) {
        const auto first = std::ranges::lower_bound(sorted, window_begin);
        const auto last = std::ranges::lower_bound(sorted, window_end);
        most = std::max(most, static_cast<std::size_t>(last - first));
    }
    return most;
}

}  // namespace

std::uint64_t raise_descriptor_limit() {
    rlimit limit{};
    if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return 0;
    constexpr rlim_t plenty = 1 << 20;  // fs.nr_open of a stock kernel
    const rlimit more{plenty, plenty};
    if (limit.rlim_max < plenty && ::setrlimit(RLIMIT_NOFILE, &more) == 0) return plenty;
    limit.rlim_cur = limit.rlim_max;
    ::setrlimit(RLIMIT_NOFILE, &limit);
    return limit.rlim_max;
}

bool opened_by_each(const Object& object) {
    if (object.is<schema::Pidfd>()) return !object.outside;
    if (object.is<schema::Userfaultfd>()) return true;
    return object.is<schema::File>() && (object.path.starts_with("/proc/") || object.path == "/dev/tty");
}

std::vector<std::int64_t> needed_to_rebuild(const Process& process) {
    std::set<std::int64_t> needed{process.cwd, process.root, process.executable};
    if (process.namespaces) needed.insert(process.namespaces->begin(), process.namespaces->end());
    for (const schema::Area& area : process.areas) needed.insert(area.object);
    for (const schema::Thread& thread : process.threads)
        if (thread.own_folders) needed.insert({thread.own_folders->cwd, thread.own_folders->root});
    std::erase_if(needed, [](std::int64_t id) { return id < 0; });
    return {needed.begin(), needed.end()};
}

Result<ProgramFd> last_descriptor(const Process& process, std::uint64_t limit) {
    if (process.descriptors.size() < limit) return ProgramFd();
    std::set<std::int64_t> seen;
    ProgramFd last;
    for (const schema::Descriptor& descriptor : process.descriptors)
        if (!seen.insert(descriptor.object).second) last = std::max(last, descriptor.fd);
    if (last.known()) return last;
    return fail_code(ExitCode::refused,
                     "process {} ({}) has {} different open files under a hard limit of {} (ulimit -Hn): a "
                     "restart can bring back {} of them, or all under a higher limit; close one",
                     process.pid, process.name, process.descriptors.size(), limit, limit - 1);
}

Result<DescriptorRoom> find_descriptor_room(std::span<const Process> processes,
                                            const schema::Objects& objects, std::uint64_t limit,
                                            bool narrow) {
    const Highest highest = highest_descriptor(processes);
    DescriptorRoom room{static_cast<int>(highest.number) + 1, 0};
    if (!narrow && highest.number + 1 + objects.objects.size() + own <= limit) return room;
    const auto refuse = [&](const std::string& why, std::uint64_t needed) {
        return fail_code(ExitCode::refused,
                         "a restart needs {} descriptors ({}), and {} are allowed here: start it under a "
                         "higher hard limit (ulimit -Hn)",
                         needed, why, limit);
    };
    if (highest.number >= limit)
        return refuse(fmt::format("process {} ({}) has descriptor {}", highest.whose->pid,
                                  highest.whose->name, highest.number),
                      highest.number + 1);
    room.width = width_of(processes, objects);
    const std::uint64_t at_once = held_at_once(objects) + static_cast<std::uint64_t>(room.width);
    if (at_once > limit)
        return refuse(
            fmt::format("{} sockets that wait for each other, or files in memory, have to be open at once",
                        held_at_once(objects)),
            at_once);
    std::vector<std::vector<ProgramFd>> numbers;
    std::map<std::int64_t, bool> early;
    for (const Object& object : objects.objects)
        early[object.id] = opened_by_each(object) || may_be_replaced(object);
    std::set<ProgramFd> put_early;
    for (const Process& process : processes) {
        CHECK_OK(last_descriptor(process, limit));
        auto& sorted = numbers.emplace_back();
        for (const schema::Descriptor& descriptor : process.descriptors) {
            sorted.push_back(descriptor.fd);
            if (early[descriptor.object]) put_early.insert(descriptor.fd);
        }
        std::ranges::sort(sorted);
    }
    const int step = std::max(room.width / 2, 1);
    std::optional<std::size_t> least;
    DescriptorRoom candidate = room;
    for (candidate.floor = static_cast<int>(limit) - room.width;
         candidate.floor >= lowest_floor && least != std::size_t{0}; candidate.floor -= step) {
        const auto cost = cost_of(candidate, numbers, put_early);
        if (!cost || (least && *cost >= *least)) continue;
        least = cost;
        room.floor = candidate.floor;
    }
    if (!least)
        return refuse(fmt::format("{} in a row for itself while it rebuilds a process", room.width),
                      std::uint64_t{lowest_floor} + static_cast<std::uint64_t>(room.width));
    return room;
}

}  // namespace cairn
