#include "restart/pmi/launchers.h"

#include <fmt/format.h>
#include <sys/syscall.h>
#include <sys/user.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <utility>

#include "common/ptrace/restart_code.h"
#include "restart/pmi/launcher.h"

namespace cairn::restart::pmi {
namespace {

// A read of this descriptor was interrupted by the checkpoint, and begins anew.
bool reads_from(const schema::Process& process, ProgramFd fd) {
    return std::ranges::any_of(process.threads, [&](const schema::Thread& thread) {
        user_regs_struct registers{};
        if (thread.registers.size() < sizeof registers) return false;
        std::memcpy(&registers, thread.registers.data(), sizeof registers);
        const auto call = static_cast<long>(registers.orig_rax);
        return (call == SYS_read || call == SYS_recvfrom) &&
               ProgramFd(static_cast<int>(registers.rdi)) == fd && to_be_made_again(registers);
    });
}

// What is saved of a connection to a launcher; null: it is none.
const schema::LauncherRank* launcher_of(const schema::Object& object) {
    return std::visit(
        [](const auto& what) -> const schema::LauncherRank* {
            if constexpr (requires { what.launcher; })
                return what.launcher ? &*what.launcher : nullptr;
            else
                return nullptr;
        },
        object.what);
}

// The ranks among these processes. Takes the launchers' ends out of `set`.
Result<std::vector<Rank>> find_ranks(const schema::Objects& objects,
                                     std::span<const schema::Process> processes, ObjectSet& set,
                                     const ToKernel& to_kernel) {
    std::vector<Rank> ranks;
    for (const schema::Object& object : objects.objects) {
        const auto* saved = launcher_of(object);
        Fd connection = saved == nullptr ? Fd() : set.take_launcher(object.id);
        if (!connection) continue;
        const ProgramFd fd = saved->fd;
        const auto holds = [&](const schema::Process& process) {
            return std::ranges::any_of(process.descriptors, [&](const schema::Descriptor& descriptor) {
                return descriptor.fd == fd && descriptor.object == object.id;
            });
        };
        // What a rank has forked may hold it as well.
        const auto process = std::ranges::find_if(processes, [&](const schema::Process& each) {
            return holds(each) && std::ranges::none_of(processes, [&](const schema::Process& parent) {
                       return parent.pid == each.ppid && holds(parent);
                   });
        });
        if (process == processes.end()) continue;
        Rank rank;
        rank.connection = std::move(connection);
        rank.process.reset(static_cast<int>(::syscall(SYS_pidfd_open, to_kernel(process->pid).number(), 0)));
        if (!rank.process) return fail_errno("process {}", process->pid);
        rank.who = fmt::format("process {} ({})", process->pid, process->name);
        rank.number = saved->rank;
        rank.size = saved->size;
        rank.job = saved->job;
        rank.awaited = saved->awaited;
        rank.waits =
            rank.job.empty() ? object.contents.empty() && reads_from(*process, fd) : !rank.awaited.empty();
        rank.born = process->uid.substr(process->uid.rfind('-') + 1);
        rank.born.insert(0, 20 - std::min<std::size_t>(rank.born.size(), 20), '0');  // numbers, in order
        ranks.push_back(std::move(rank));
    }
    return ranks;
}

void note_missing(std::span<const Rank> ranks, std::vector<std::string>& notes) {
    std::map<int, int> here;
    for (const Rank& rank : ranks) ++here[rank.size];
    for (const auto& [size, count] : here)
        if (count % size != 0)
            notes.push_back(fmt::format(
                "{} of {} ranks of an MPI job are restarted here: what asks all of them, MPI_Finalize "
                "above all, asks these",
                count, size));
}

}  // namespace

Result<pid_t> stand_in_for_launchers(const schema::Objects& objects,
                                     std::span<const schema::Process> processes, ObjectSet& set,
                                     const ToKernel& to_kernel, std::vector<std::string>& notes) {
    auto ranks = TRY(find_ranks(objects, processes, set, to_kernel));
    if (ranks.empty()) return -1;
    note_missing(ranks, notes);
    return start_launcher(std::move(ranks));
}

}  // namespace cairn::restart::pmi
