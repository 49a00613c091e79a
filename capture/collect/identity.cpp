// What a process is: its credentials, limits, namespaces and whatever else /proc tells of it as a whole.
#include <asm/prctl.h>
#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <iterator>
#include <sstream>
#include <string>
#include <vector>

#include "capture/collect/collect.h"
#include "common/cpu_state.h"
#include "common/fd.h"
#include "common/same.h"

namespace cairn::capture {
namespace {

Result<> collect_credentials(const StoppedProcess& process, const AgentProcess& answers,
                             schema::Process& image) {
    const auto& field = process.status();
    read_ids(field["Uid"], image.uids);
    read_ids(field["Gid"], image.gids);
    image.groups = groups_of(field["Groups"]);
    image.cap_bounding = proc::hexadecimal(field["CapBnd"]);
    image.no_new_privs = std::ranges::all_of(image.threads, [](const schema::Thread& thread) {
        return thread.leader_dead || thread.no_new_privs;
    });
    image.securebits = static_cast<std::uint32_t>(answers.securebits);
    image.keep_caps = answers.keep_caps == 1;
    image.dumpable = answers.dumpable;
    image.umask = umask_of(field["Umask"]);
    return {};
}

// /proc/PID/limits tells them of a process of another user, which prlimit(2) does with CAP_SYS_RESOURCE only:
// a line for each limit, in the order of their numbers, in columns of 25, 20 and 20 characters
// (fs/proc/base.c).
Result<> read_limits(const StoppedProcess& process, schema::Process& image) {
    auto text = proc::read_file(fmt::format("/proc/{}/limits", process.living));
    if (!text) return std::unexpected(std::move(text.error()));
    const auto value = [](const std::string& word) {
        return word.starts_with("unlimited") ? RLIM64_INFINITY : std::strtoull(word.c_str(), nullptr, 10);
    };
    image.limits.clear();
    std::istringstream lines(*text);
    std::string line;
    std::getline(lines, line);  // what the columns are called
    while (std::getline(lines, line) && line.size() > 47)
        image.limits.push_back({value(line.substr(26, 20)), value(line.substr(47, 20))});
    if (image.limits.size() != RLIM_NLIMITS)
        return fail("/proc/{}/limits has {} lines", process.living, image.limits.size());
    return {};
}

// Since Linux 5.16 a process has to ask before its first use of AMX's tiles, whose 8 KiB not every thread is
// to have (Documentation/arch/x86/xstate.rst). Who has a seccomp filter isn't asked, which may forbid it: of
// such a one is seen what its threads use.
void collect_state_permission(const AgentProcess& answers, schema::Process& image) {
    static const std::uint64_t without_asking = [] {
        std::uint64_t bits = 0;
        return ::syscall(SYS_arch_prctl, ARCH_GET_XCOMP_PERM, &bits) == 0 ? bits : ~std::uint64_t{0};
    }();
    std::uint64_t bits = answers.state_permission;
    for (const auto& thread : image.threads) bits |= components_in_use(thread.xstate);
    if ((bits & ~without_asking) != 0) image.state_permission = bits & ~without_asking;
}

Result<> collect_limits(const StoppedProcess& process, schema::Process& image) {
    for (int resource = 0; resource < static_cast<int>(RLIM_NLIMITS); ++resource) {
        rlimit64 limit = {};
        if (::syscall(SYS_prlimit64, process.pid, resource, nullptr, &limit) < 0 && errno == EPERM)
            return read_limits(process, image);
        if (::syscall(SYS_prlimit64, process.pid, resource, nullptr, &limit) < 0)
            return fail_errno("limits of {}", proc::label(process.pid));
        image.limits.push_back({limit.rlim_cur, limit.rlim_max});
    }
    return {};
}

Result<> collect_layout(const StoppedProcess& process, const AgentProcess& answers, schema::Process& image) {
    // A dead main thread shows no addresses.
    const auto stat = process.living == process.pid ? process.stat : TRY(proc::stat(process.living));
    image.layout = {stat.start_code,  stat.end_code,  stat.start_data,
                    stat.end_data,    stat.start_brk, ProgramAddress(answers.brk),
                    stat.start_stack, stat.arg_start, stat.arg_end,
                    stat.env_start,   stat.env_end,   {}};
    auto auxv = proc::read_file(fmt::format("/proc/{}/auxv", process.living));
    if (!auxv) return std::unexpected(std::move(auxv.error()));
    image.layout.auxv.assign(auxv->begin(), auxv->end());
    return {};
}

void translate_ids(KernelId pid, const proc::Stat& stat, const ToProgram& to_program,
                   schema::Process& image) {
    image.pid = to_program(pid);
    image.ppid = to_program(KernelId(stat.ppid));
    image.pgid = to_program(KernelId(stat.pgrp));
    image.sid = to_program(KernelId(stat.session));
}

}  // namespace

void read_ids(const std::string& text, std::uint32_t (&ids)[4]) {
    std::istringstream words(text);
    for (auto& id : ids) words >> id;
}

std::vector<std::uint32_t> groups_of(const std::string& text) {
    std::vector<std::uint32_t> all;
    std::istringstream words(text);
    for (std::uint32_t group = 0; words >> group;) all.push_back(group);
    return all;
}

std::uint32_t umask_of(const std::string& text) {
    std::uint32_t umask = 0;
    std::from_chars(text.data(), text.data() + text.size(), umask, 8);
    return umask;
}

Result<> refuse_unsupported(const StoppedProcess& process) {
    if (process.status()["x86_Thread_features"].find("shstk") != std::string::npos)
        return fail_code(ExitCode::refused,
                         "{} uses shadow stacks, which can't be saved; run it with "
                         "GLIBC_TUNABLES=glibc.cpu.x86_shstk=off",
                         proc::label(process.pid));
    if (const auto cs = process.first_living().registers.cs; cs != 0x33)
        return fail_code(ExitCode::refused, "{} is not a 64-bit program", proc::label(process.pid));
    return {};
}

Result<> collect_identity(const StoppedProcess& process, const AgentProcess& answers,
                          const ToProgram& to_program, schema::Process& image) {
    const auto& stat = process.stat;
    translate_ids(KernelId(process.pid), stat, to_program, image);
    image.subreaper = answers.subreaper != 0;
    image.run = process.job_stopped ? schema::Run::stopped : schema::Run::running;
    image.stop_signal = process.stop_signal;
    // field 52 of stat holds what wait() has yet to tell of a stopped group, 0 once it has (do_task_stat,
    // fs/proc/array.c), since Linux 5.17; its parent is asked as well (capture/passes/collect.cpp)
    image.stop_reported = process.job_stopped && stat.exit_code == 0;
    image.exit_signal = stat.exit_signal;
    image.name = stat.comm;
    image.foreground = to_program(KernelId(stat.tpgid));
    // Since Linux 6.18 the flags that it was set with are told as well (prctl_get_thp_disable, kernel/sys.c).
    image.thp_disable = answers.thp_disable > 0;
    if (answers.thp_disable > 1)
        image.thp_disable_flags = static_cast<std::uint32_t>(answers.thp_disable) & ~1U;
    if (answers.deny_write_execute > 0)
        image.deny_write_execute = static_cast<std::uint32_t>(answers.deny_write_execute);
    if (answers.protection_keys != 0) image.protection_keys = answers.protection_keys;
    collect_state_permission(answers, image);
    image.lock_future = answers.lock_future;
    const auto ticks = ::sysconf(_SC_CLK_TCK);
    const auto before = TRY(ptrace::read_object<CpuBase>(process.living, process.door + offsetof(Door, cpu)));
    image.cpu_user_us = static_cast<std::int64_t>(stat.utime) * 1'000'000 / ticks + before.user_us;
    image.cpu_system_us = static_cast<std::int64_t>(stat.stime) * 1'000'000 / ticks + before.system_us;
    image.cpu_children_user_us = answers.children_user_us + before.children_user_us;
    image.cpu_children_system_us = answers.children_system_us + before.children_system_us;
    image.cpu_ns = answers.cpu_ns + before.process_ns;
    image.membarrier = answers.membarrier;
    if (auto text = proc::read_file(fmt::format("/proc/{}/oom_score_adj", process.pid)))
        image.oom_score_adj = std::atoi(text->c_str());
    // Empty for a process that is ending: its memory has gone.
    if (auto text = proc::read_file(fmt::format("/proc/{}/coredump_filter", process.pid));
        text && !text->empty())
        image.coredump_filter = static_cast<std::uint32_t>(proc::hexadecimal(*text));
    if (auto text = proc::read_file(fmt::format("/proc/{}/personality", process.living)))
        image.personality = static_cast<std::uint32_t>(proc::hexadecimal(*text));
    image.region_at = process.region_at;
    image.door = process.door;
    image.timing_tls = process.timing_tls;
    CHECK_OK(collect_credentials(process, answers, image));
    CHECK_OK(collect_limits(process, image));
    return collect_layout(process, answers, image);
}

void note_outer_leaders(const proc::Stat& stat, const std::set<pid_t>& ours, schema::Process& image) {
    const auto led_outside = [&](pid_t leader) {
        if (leader == 0) return true;  // outside of our pid namespace
        if (leader < 0 || ours.contains(leader)) return false;
        const auto found = proc::stat(leader);
        return found && found->state != 'Z' && found->state != 'X';
    };
    image.session_led_outside = led_outside(stat.session);
    image.group_led_outside = led_outside(stat.pgrp);
}

schema::Process collect_zombie(const Zombie& zombie, const ToProgram& to_program) {
    schema::Process image;
    image.run = schema::Run::zombie;
    translate_ids(KernelId(zombie.pid), zombie.stat, to_program, image);
    image.exit_status = zombie.stat.exit_code;
    image.exit_signal = zombie.stat.exit_signal;
    image.name = zombie.stat.comm;
    return image;
}

}  // namespace cairn::capture
