#include "restart/rebuild/leave.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <optional>

#include "common/agent.h"
#include "common/fd.h"
#include "common/ptrace/remote_call.h"
#include "common/ptrace/thread.h"
#include "restart/old_vdso.h"
#include "restart/rebuild/advance.h"
#include "restart/rebuild/enter.h"
#include "restart/rebuild/filters.h"
#include "restart/rebuild/hand.h"
#include "restart/rebuild/hand_over.h"
#include "restart/rebuild/limits.h"
#include "restart/rebuild/registers.h"
#include "restart/rebuild/tracee.h"
#include "restart/restorer/params.h"

namespace cairn::restart {
namespace {

// The restorer, which traps, can't have one of these wait. Who has sent it is lost.
bool has_pending_trap(const schema::Process& process) {
    const auto is_trap = [](const schema::Bytes& info) {
        std::int32_t signal = 0;
        std::memcpy(&signal, info.data(), std::min(info.size(), sizeof signal));
        return signal == SIGTRAP;
    };
    return std::ranges::any_of(process.pending, is_trap) ||
           std::ranges::any_of(process.threads[0].pending, is_trap);
}

// Where SIGTRAP is ignored, the last trap of the restorer has made it the default.
Result<> ignore_traps(const Rebuilding& rebuilding, ProgramAddress call_at) {
    const auto& actions = rebuilding.process->actions;
    constexpr std::size_t trap = SIGTRAP - 1;
    if (actions.size() <= trap || actions[trap].handler.value() != reinterpret_cast<std::uint64_t>(SIG_IGN))
        return {};
    const std::array<std::uint64_t, 4> arguments = {
        SIGTRAP,
        (rebuilding.placement.params + offsetof(restorer::Params, actions) + trap * sizeof(restorer::Action))
            .value(),
        0, sizeof(std::uint64_t)};
    auto done = TRY(ptrace::remote_call(rebuilding.pid, call_at, SYS_rt_sigaction, arguments));
    if (done != 0) return fail("process {}: SIGTRAP can't be ignored again", rebuilding.process->pid);
    return {};
}

// The same in libcairn.so, which every process has, for who has unmapped the vdso: where the agent sleeps.
Result<ProgramAddress> find_call_in_library(const Rebuilding& rebuilding) {
    constexpr std::uint64_t length = 64;
    const auto park = TRY(
        ptrace::read_object<std::uint64_t>(rebuilding.pid, rebuilding.process->door + offsetof(Door, park)));
    return ptrace::find_syscall(rebuilding.pid, ProgramAddress(park), length);
}

Result<> unmap_vdso(const Rebuilding& rebuilding, ProgramAddress call_at) {
    const auto& placement = rebuilding.placement;
    const std::array<std::uint64_t, 2> all = {placement.special.value(), placement.special_size};
    const auto unmapped = TRY(ptrace::remote_call(rebuilding.pid, call_at, SYS_munmap, all));
    if (unmapped != 0) return fail("process {}: its vdso can't be unmapped", rebuilding.process->pid);
    return {};
}

Result<> unmapped_restorer(const Rebuilding& rebuilding, ptrace::RemoteCall& unmapping) {
    auto unmapped = unmapping.finish();
    if (!unmapped) return std::unexpected(std::move(unmapped.error()).in("the restorer can't be unmapped"));
    if (*unmapped != 0)
        return fail("process {}: the restorer can't be unmapped: {}", rebuilding.process->pid,
                    std::strerror(static_cast<int>(-*unmapped)));
    return {};
}

// The far end of the restorer's stack.
ProgramAddress scratch_of(const Rebuilding& rebuilding) {
    return rebuilding.placement.stack;
}

// prlimit64(2) by the process itself.
int limit_inside(const Rebuilding& rebuilding, unsigned resource, const rlimit64* fresh, rlimit64* old) {
    const auto call_at = call_instruction(rebuilding);
    const auto at = scratch_of(rebuilding);
    if (!call_at || (fresh != nullptr && !ptrace::write_object(rebuilding.pid, at, *fresh))) return EFAULT;
    const std::array<std::uint64_t, 4> arguments = {0, resource, fresh != nullptr ? at.value() : 0,
                                                    old != nullptr ? at.value() : 0};
    const auto done = ptrace::remote_call(rebuilding.pid, *call_at, SYS_prlimit64, arguments);
    if (!done || *done != 0) return done ? static_cast<int>(-*done) : EFAULT;
    if (old == nullptr) return 0;
    const auto found = ptrace::read_object<rlimit64>(rebuilding.pid, at);
    if (found) *old = *found;
    return found ? 0 : EFAULT;
}

std::string own_setting(const char* file) {
    auto text = proc::read_file(fmt::format("/proc/self/{}", file)).value_or("");
    while (text.ends_with('\n')) text.pop_back();
    return text;
}

// What a fork and an exec hand on: it was the tool's. Of thousands of processes each file of /proc counts.
void set_inherited(const Rebuilding& rebuilding, const char* file, const std::string& text,
                   const std::string& tools) {
    if (text == tools) return;
    const Fd fd(::open(fmt::format("/proc/{}/{}", rebuilding.pid, file).c_str(), O_WRONLY | O_CLOEXEC));
    if (fd) (void)!::write(fd.get(), text.data(), text.size());
}

std::array<rlimit64, RLIM_NLIMITS> own_limits() {
    std::array<rlimit64, RLIM_NLIMITS> all = {};
    for (unsigned resource = 0; resource < all.size(); ++resource)
        (void)::syscall(SYS_prlimit64, 0, resource, nullptr, &all.at(resource));
    return all;
}

void set_chances_to_be_killed(const Rebuilding& rebuilding) {
    static const std::string tools = own_setting("oom_score_adj");
    set_inherited(rebuilding, "oom_score_adj", fmt::format("{}", rebuilding.process->oom_score_adj), tools);
}

// Which kinds of memory a core dump has (java leaves out what is a file's).
void set_dump_filter(const Rebuilding& rebuilding) {
    if (!rebuilding.process->coredump_filter) return;
    static const std::string tools = "0x" + own_setting("coredump_filter");
    set_inherited(rebuilding, "coredump_filter",
                  fmt::format("{:#010x}", *rebuilding.process->coredump_filter), tools);
}

}  // namespace

Result<> begin_to_go(const Rebuilding& rebuilding) {
    return let_restorer_go(rebuilding);
}

Result<> await_prepared(const Rebuilding& rebuilding) {
    int status = 0;
    if (::waitpid(rebuilding.pid, &status, __WALL) != rebuilding.pid)
        return fail_errno("waiting for {}", rebuilding.pid);
    if (!WIFSTOPPED(status))
        return fail("process {} ({}) was killed before it could go on", rebuilding.process->pid,
                    rebuilding.process->name);
    CHECK_OK(check_restorer(rebuilding));
    return lead_old_vdso(rebuilding);
}

// By the process itself where it belongs to another user than ours: of such a one the kernel lets only
// CAP_SYS_RESOURCE set limits from outside (check_prlimit_permission() in kernel/sys.c).
void set_limits(const Rebuilding& rebuilding, std::vector<std::string>& notes) {
    const auto from_outside = [&](unsigned resource, const rlimit64* fresh, rlimit64* old) {
        return ::syscall(SYS_prlimit64, rebuilding.pid, resource, fresh, old) == 0 ? 0 : errno;
    };
    const auto from_inside = [&](unsigned resource, const rlimit64* fresh, rlimit64* old) {
        return limit_inside(rebuilding, resource, fresh, old);
    };
    std::optional<bool> foreign;
    const auto call = [&](unsigned resource, const rlimit64* fresh, rlimit64* old) {
        rlimit64 any = {};
        if (!foreign) foreign = from_outside(RLIMIT_CORE, nullptr, &any) == EPERM;
        return *foreign ? from_inside(resource, fresh, old) : from_outside(resource, fresh, old);
    };
    static const auto tools = own_limits();
    set_limits(*rebuilding.process, tools, call, notes);
    set_chances_to_be_killed(rebuilding);
    set_dump_filter(rebuilding);
}

Result<ptrace::RemoteCall> set_other_threads(const Rebuilding& rebuilding) {
    const schema::Process& process = *rebuilding.process;
    const auto call_at = TRY(call_instruction(rebuilding));
    CHECK_OK(ignore_traps(rebuilding, call_at));
    // They are in the restorer's memory, so it is still there.
    CHECK_OK(install_filters(process, rebuilding.thread_ids, rebuilding.placement.filters, call_at,
                             scratch_of(rebuilding)));
    for (std::size_t i = 1; i < rebuilding.thread_ids.size(); ++i) CHECK_OK(set_thread(rebuilding, i));
    const std::array<std::uint64_t, 2> all = {rebuilding.placement.base.value(), rebuilding.placement.size};
    return ptrace::RemoteCall::begin(rebuilding.pid, call_at, SYS_munmap, all);
}

Result<> set_main_thread(const Rebuilding& rebuilding, ptrace::RemoteCall& unmapping) {
    const schema::Process& process = *rebuilding.process;
    const pid_t pid = rebuilding.pid;
    CHECK_OK(unmapped_restorer(rebuilding, unmapping));
    const bool has_vdso = !rebuilding.placement.unmaps_special;
    if (!has_vdso) CHECK_OK(unmap_vdso(rebuilding, TRY(find_call_in_library(rebuilding))));
    if (!process.threads[0].leader_dead) {
        auto done = set_thread(rebuilding, 0);
        if (done && has_pending_trap(process)) ::syscall(SYS_tgkill, pid, pid, SIGTRAP);
        return done;
    }
    // its main thread had exited: let it do so again
    auto registers = TRY(ptrace::registers(pid));
    registers.rip = TRY(has_vdso ? call_instruction(rebuilding) : find_call_in_library(rebuilding)).value();
    registers.rax = SYS_exit;
    registers.rdi = 0;
    registers.orig_rax = static_cast<std::uint64_t>(-1);
    CHECK_OK(ptrace::set_registers(pid, registers));
    return ptrace::detach(pid, 0);
}

Result<> let_stand(const Rebuilding& rebuilding) {
    const auto& threads = rebuilding.process->threads;
    const auto first = static_cast<std::size_t>(
        std::ranges::find(threads, false, &schema::Thread::leader_dead) - threads.begin());
    const pid_t tid = rebuilding.thread_ids[first].now.number();
    // The main thread is in a signal's delivery stop: what is given here is delivered.
    if (first != 0) ::syscall(SYS_tgkill, rebuilding.pid, tid, SIGSTOP);
    CHECK_OK(ptrace::detach(tid, first == 0 ? SIGSTOP : 0));
    for (int tries = 0; tries < 10'000; ++tries) {
        const auto stat = proc::stat(rebuilding.pid, tid);
        if (!stat || stat->state == 'T') break;
        ::usleep(1000);
    }
    // Now the whole process is about to stop, and each thread that is detached takes part before it returns
    // to the program (__ptrace_unlink() in kernel/ptrace.c).
    for (std::size_t i = first + 1; i < threads.size(); ++i)
        CHECK_OK(ptrace::detach(rebuilding.thread_ids[i].now.number(), 0));
    return {};
}

void let_go(const Rebuilding& rebuilding) {
    const schema::Process& process = *rebuilding.process;
    const bool stopped = process.run == schema::Run::stopped;
    const auto detach = [&](std::size_t i) {
        if (process.threads[i].leader_dead || is_traced(rebuilding, i)) return;
        // the main thread is in a signal's delivery stop: what is given here is delivered
        (void)ptrace::detach(rebuilding.thread_ids[i].now.number(), stopped && i == 0 ? SIGSTOP : 0);
    };
    // The main thread first, or last if it stops the others: an ignored signal that comes while it is traced
    // would wake another that isn't any more, out of a call that nobody makes again (capture/stop.cpp).
    if (!stopped) detach(0);
    for (std::size_t i = rebuilding.thread_ids.size(); i-- > 1;) detach(i);
    if (stopped) detach(0);
}

}  // namespace cairn::restart
