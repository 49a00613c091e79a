#include "resources/schema/demands.h"

#include <linux/filter.h>
#include <signal.h>
#include <sys/user.h>

#include <algorithm>
#include <set>

namespace cairn {
namespace {

using schema::AreaKind;
using schema::Process;
using schema::Thread;

constexpr std::size_t smallest_xstate = 576;  // the legacy area and the header of XSAVE
constexpr std::uint32_t largest_xstate = 1U << 16;

Result<> check_infos(const Process& process, const std::vector<schema::Bytes>& infos) {
    for (const auto& info : infos)
        if (info.empty() || info.size() > sizeof(siginfo_t))
            return fail("process {}: a pending signal of {} bytes", process.pid, info.size());
    return {};
}

Result<> check_thread(const Process& process, const Thread& thread) {
    if (thread.leader_dead) {
        if (thread.tid == process.pid) return {};
        return fail("process {}: thread {} had ended when it was saved", process.pid, thread.tid);
    }
    if (thread.registers.size() != sizeof(user_regs_struct))
        return fail("process {}: registers of thread {} are of another size", process.pid, thread.tid);
    if (thread.xstate.size() < smallest_xstate)
        return fail("process {}: the floating-point state of thread {} is missing", process.pid, thread.tid);
    if (thread.xstate_size &&
        (*thread.xstate_size < thread.xstate.size() || *thread.xstate_size > largest_xstate))
        return fail("process {}: the floating-point state of thread {} has {} bytes of {}", process.pid,
                    thread.tid, thread.xstate.size(), *thread.xstate_size);
    for (const auto filter : thread.filters)
        if (filter < 0 || static_cast<std::size_t>(filter) >= process.filters.size())
            return fail("process {}: thread {} has a seccomp filter that isn't there", process.pid,
                        thread.tid);
    if (thread.seccomp_strict.value_or(false) && !thread.filters.empty())
        return fail("process {}: thread {} is in seccomp's strict mode and has filters", process.pid,
                    thread.tid);
    return check_infos(process, thread.pending);
}

// Which of two would be the page's contents, nobody could say.
Result<> check_pages_are_once(const Process& process, const schema::Area& area) {
    std::vector<schema::PageRun> all = area.pages;
    for (const auto& part : area.borrowed.value_or(std::vector<schema::Borrowed>()))
        all.insert(all.end(), part.pages.begin(), part.pages.end());
    std::ranges::sort(all, {}, &schema::PageRun::at);
    ProgramAddress at = area.start;
    for (const auto& run : all) {
        if (run.at < at || run.at + run.length > area.end)
            return fail("process {}: pages at {:#x} ({} bytes) are there twice, or not within {:#x}-{:#x}",
                        process.pid, run.at, run.length, area.start, area.end);
        at = run.at + run.length;
    }
    return {};
}

Result<> check_process(const Process& process, std::set<ProgramId>& ids) {
    if (process.threads.empty() || process.threads.front().tid != process.pid)
        return fail("process {}: its main thread is missing", process.pid);
    if (std::ranges::all_of(process.threads, &Thread::leader_dead))
        return fail("process {}: it has no thread that lives", process.pid);
    for (const auto& thread : process.threads) {
        if (thread.tid != process.pid && !ids.insert(thread.tid).second)
            return fail("process {}: thread {} is there twice", process.pid, thread.tid);
        CHECK_OK(check_thread(process, thread));
    }
    for (const auto& area : process.areas) CHECK_OK(check_pages_are_once(process, area));
    for (const auto& filter : process.filters)
        if (filter.code.empty() || filter.code.size() % sizeof(sock_filter) != 0)
            return fail("process {}: a seccomp filter of {} bytes", process.pid, filter.code.size());
    return check_infos(process, process.pending);
}

Result<> check_objects_of(const Process& process, const std::set<std::int64_t>& known) {
    for (const auto& [what, id] : {std::pair{"executable", process.executable},
                                   {"working directory", process.cwd},
                                   {"root directory", process.root},
                                   {"terminal", process.terminal}})
        if (id >= 0 && !known.contains(id))
            return fail("process {}: its {} leads to object {}, which isn't there", process.pid, what, id);
    for (const auto id : process.namespaces.value_or(std::vector<std::int64_t>{}))
        if (!known.contains(id))
            return fail("process {}: a namespace of its own is object {}, which isn't there", process.pid,
                        id);
    if (process.executable < 0) return fail("process {}: its executable isn't known", process.pid);
    for (const auto& thread : process.threads)
        for (const auto id : {thread.own_folders ? thread.own_folders->cwd : -1,
                              thread.own_folders ? thread.own_folders->root : -1})
            if (id >= 0 && !known.contains(id))
                return fail("process {}: a folder of thread {} is object {}, which isn't there", process.pid,
                            thread.tid, id);
    for (const auto& descriptor : process.descriptors)
        if (!known.contains(descriptor.object))
            return fail("process {}: descriptor {} leads to object {}, which isn't there", process.pid,
                        descriptor.fd, descriptor.object);
    for (const auto& area : process.areas) {
        const bool of_an_object = area.kind == AreaKind::file_private || area.kind == AreaKind::file_shared ||
                                  area.kind == AreaKind::shared_memory;
        if (of_an_object && !known.contains(area.object))
            return fail("process {}: what is mapped at {:#x} is object {}, which isn't there", process.pid,
                        area.start, area.object);
    }
    return {};
}

}  // namespace

Result<> check_demands(std::span<const Process* const> processes, const schema::Objects& objects) {
    std::set<std::int64_t> known;
    for (const auto& object : objects.objects) known.insert(object.id);
    std::set<ProgramId> ids;
    for (const Process* process : processes)
        if (!process->pid.known() || !ids.insert(process->pid).second)
            return fail("process {} is there twice", process->pid);
    for (const Process* process : processes) {
        if (process->run == schema::Run::zombie) continue;
        CHECK_OK(check_process(*process, ids));
        CHECK_OK(check_objects_of(*process, known));
    }
    return {};
}

}  // namespace cairn
