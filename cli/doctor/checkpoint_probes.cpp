// What a checkpoint does to a program: it stops it, reads it, and takes its descriptors, from a process that
// is none of its ancestors.
#include <fcntl.h>
#include <fmt/format.h>
#include <linux/capability.h>
#include <linux/magic.h>
#include <mqueue.h>
#include <sys/ipc.h>
#include <sys/msg.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <fstream>

#include "cli/doctor/container.h"
#include "cli/doctor/look.h"
#include "cli/doctor/probe.h"
#include "common/fd.h"
#include "common/same.h"
#include "common/vdso.h"

namespace cairn::doctor {
namespace {

Observation look_at_proc(const Setting&) {
    struct statfs system {};
    if (::statfs("/proc", &system) != 0 || system.f_type != PROC_SUPER_MAGIC) {
        auto seen = failed("/proc", ENOENT);
        seen.said = "/proc is not mounted here";
        return seen;
    }
    for (const char* path : {"/proc/self/maps", "/proc/self/stat", "/proc/self/fdinfo"})
        if (const Fd file(::open(path, O_RDONLY | O_CLOEXEC)); !file) return failed(path);
    auto seen = worked("mounted");
    std::ifstream mounts("/proc/self/mounts");
    for (std::string line; std::getline(mounts, line);)
        if (const auto at = line.find("hidepid=");
            line.find(" /proc proc ") != std::string::npos && at != std::string::npos)
            seen.facts["hidepid"] = line.substr(at + 8, line.find_first_of(", ", at) - at - 8);
    return seen;
}

void refine_proc(Line& line, const Observation& seen, const Setting& setting) {
    const auto hidden = seen.fact("hidepid");
    if (line.state != State::ok || hidden.empty() || hidden == "0" || hidden == "off" || setting.root) return;
    line.state = State::note;
    line.found = "mounted with hidepid=" + hidden;
    line.meaning =
        "your own programs can be saved; who else belongs to a computation and runs as another user isn't "
        "seen";
    line.remedy = "only if you need that: as root, mount -o remount,hidepid=0 /proc";
}

Observation seize(pid_t target) {
    if (::ptrace(PTRACE_SEIZE, target, 0, 0) != 0) return failed("ptrace (PTRACE_SEIZE)");
    if (::ptrace(PTRACE_INTERRUPT, target, 0, 0) != 0) return failed("ptrace (PTRACE_INTERRUPT)");
    int status = 0;
    if (::waitpid(target, &status, __WALL) != target || !WIFSTOPPED(status))
        return failed("waiting for a stop", EIO);
    if (::ptrace(PTRACE_DETACH, target, 0, 0) != 0) return failed("ptrace (PTRACE_DETACH)");
    return worked();
}

Observation trace(const Setting&) {
    auto seen = as_stranger(seize);
    if (seen.worked()) seen.said = "a process that is no child is stopped and let go";
    note_rules(seen);
    if (!seen.worked() && has_capability(CAP_SYS_PTRACE)) seen.facts["cap_sys_ptrace"] = "1";
    return seen;
}

// Whose rule it is that forbids it, and who can change that.
void refine_trace(Line& line, const Observation& seen, const Setting&) {
    const auto yama = seen.fact("yama");
    if (line.state == State::ok) {
        if (!yama.empty()) line.found += fmt::format(" (kernel.yama.ptrace_scope is {})", yama);
        return;
    }
    if (seen.killed() || seen.late()) return;
    const auto apparmor = seen.fact("apparmor");
    const bool capable = seen.fact("cap_sys_ptrace") == "1";
    if (yama == "3") {
        line.found += "; kernel.yama.ptrace_scope is 3";
        line.remedy =
            "as root: take it out of /etc/sysctl.d and start the machine anew (a 3 can't be lowered while it "
            "runs)";
    } else if (yama == "2" && !capable) {
        line.found += "; kernel.yama.ptrace_scope is 2";
        line.remedy = "as root: sysctl kernel.yama.ptrace_scope=1";
    } else if (seen.fact("deny_ptrace").starts_with("1")) {
        line.found += "; SELinux's boolean deny_ptrace is on";
        line.remedy = "as root: setsebool -P deny_ptrace off";
    } else if (seen.fact("seccomp") == "2") {
        line.found += "; a seccomp filter is on this shell (a container?)";
        line.remedy = add_capabilities(runtime_here(), "SYS_PTRACE") +
                      " (or --security-opt seccomp=unconfined), or start the service without its filter";
    } else if (!apparmor.empty() && apparmor != "unconfined") {
        line.found += "; AppArmor's profile here is " + apparmor;
        line.remedy =
            "as root: add \"ptrace (trace, read, tracedby, readby) peer=@{profile_name},\" to that profile";
    } else if (seen.fact("selinux") == "1") {
        line.found += "; SELinux is enforcing";
        line.remedy = "as root: ausearch -m avc -ts recent shows the rule that is missing";
    }
}

Observation read_and_write(const Setting&) {
    static long number = 1;
    auto seen = as_stranger([](pid_t target) {
        long copy = 0;
        const iovec here{&copy, sizeof copy}, there{&number, sizeof number};
        if (::process_vm_readv(target, &here, 1, &there, 1, 0) != sizeof copy)
            return failed("process_vm_readv");
        if (::process_vm_writev(target, &here, 1, &there, 1, 0) != sizeof copy)
            return failed("process_vm_writev");
        const Fd memory(::open(fmt::format("/proc/{}/mem", target).c_str(), O_RDWR | O_CLOEXEC));
        return memory ? worked() : failed(fmt::format("/proc/{}/mem", target));
    });
    if (seen.worked()) seen.said = "another process's memory is read and written";
    return seen;
}

Observation fetch_descriptor(const Setting&) {
    return as_stranger([](pid_t target) {
        const Fd process(static_cast<int>(::syscall(SYS_pidfd_open, target, 0U)));
        if (!process) return failed("pidfd_open");
        const Fd fetched(static_cast<int>(::syscall(SYS_pidfd_getfd, process.get(), 2, 0U)));
        // A shell may have closed it.
        return fetched || errno == EBADF ? worked("another process's descriptors are taken (pidfd_getfd)")
                                         : failed("pidfd_getfd");
    });
}

// Without it programs send their descriptors themselves, from one socket to the other.
void refine_fetch(Line& line, const Observation& seen, const Setting&) {
    if (seen.error != EPERM && seen.error != ENOSYS) return;
    line.state = State::slower;
    line.meaning =
        "programs send their descriptors to the checkpoint, and its pause takes longer; one that has used up "
        "its limit of "
        "open files can't be saved";
    line.remedy = allow_call(runtime_here(), "pidfd_getfd", "SYS_PTRACE");
}

// The same rules hold for all that looks into another process.
void refine_look(Line& line, const Observation& seen, const Setting&) {
    if (seen.error == EPERM || seen.error == EACCES)
        line.remedy = "what is said at ptrace helps here as well";
}

Observation compare(const Setting&) {
    const Fd one(::open("/", O_PATH | O_CLOEXEC));
    const Fd two(::fcntl(one.get(), F_DUPFD_CLOEXEC, 0));
    const auto same = same_description(one.get(), two.get());
    if (!same || !*same) {
        auto seen = failed("", same ? EINVAL : same.error().number);
        seen.said = same ? "kcmp tells nothing" : same.error().what;
        return seen;
    }
    if (kcmp_is_allowed()) return worked("shared descriptors are told from others (kcmp)");
    auto seen = worked("kcmp is forbidden");
    seen.facts["forbidden"] = "1";
    return seen;
}

void refine_compare(Line& line, const Observation& seen, const Setting&) {
    if (seen.fact("forbidden") != "1") return;
    line.state = State::slower;
    line.meaning =
        "descriptors are compared one by one: where thousands are of one file, the pause of a checkpoint "
        "takes seconds";
    line.remedy = allow_call(runtime_here(), "kcmp", "SYS_PTRACE");
}

Observation close_ranges(const Setting&) {
    constexpr unsigned unshare_table = 2;  // CLOSE_RANGE_UNSHARE
    const int fd = ::open("/", O_PATH | O_CLOEXEC);
    if (fd < 0) return failed("open");
    const auto number = static_cast<unsigned>(fd);
    if (::syscall(SYS_close_range, number, number, unshare_table) != 0) return failed("close_range");
    return worked();
}

// A thread's descriptors can be taken though the main thread has exited.
Observation thread_pidfd(const Setting&) {
    constexpr unsigned pidfd_thread = O_EXCL;
    const Fd thread(static_cast<int>(::syscall(SYS_pidfd_open, ::gettid(), pidfd_thread)));
    return thread ? worked() : failed("pidfd_open (PIDFD_THREAD)");
}

// CONFIG_CHECKPOINT_RESTORE has no other name at run time than what it brings.
Observation kernel_option(const Setting&) {
    int* address = nullptr;
    return ::prctl(PR_GET_TID_ADDRESS, &address) == 0 ? worked() : failed("prctl (PR_GET_TID_ADDRESS)");
}

Observation posix_queue(const Setting&) {
    const auto name = fmt::format("/cairn-doctor-{}", ::getpid());
    const mqd_t queue = ::mq_open(name.c_str(), O_RDWR | O_CREAT | O_EXCL, 0600, nullptr);
    if (queue == -1) return failed("mq_open");
    ::mq_close(queue);
    ::mq_unlink(name.c_str());
    return worked();
}

Observation system_v_queue(const Setting&) {
    const int queue = ::msgget(IPC_PRIVATE, IPC_CREAT | 0600);
    if (queue < 0) return failed("msgget");
    struct {
        long type = 1;
        char text[1] = {'m'};
    } message;
    Observation seen = worked();
    if (::msgsnd(queue, &message, sizeof message.text, IPC_NOWAIT) != 0)
        seen = failed("msgsnd");
    else if (::msgrcv(queue, &message, sizeof message.text, 0, MSG_COPY | IPC_NOWAIT) < 0)
        seen = failed("msgrcv (MSG_COPY)");
    ::msgctl(queue, IPC_RMID, nullptr);
    return seen;
}

Observation own_filter(const Setting&) {
    const auto mode = own_status("Seccomp"), filters = own_status("Seccomp_filters");
    auto seen =
        worked(mode == "0" || mode.empty() ? "no filter is on this shell" : "a filter is on this shell");
    seen.facts = {{"mode", mode}, {"filters", filters}, {"admin", has_capability(CAP_SYS_ADMIN) ? "1" : "0"}};
    return seen;
}

void refine_filter(Line& line, const Observation& seen, const Setting&) {
    if (line.state != State::ok) return;
    const bool filtered = seen.fact("mode") == "2";
    if (!filtered && seen.fact("admin") == "1") return;
    line.state = State::note;
    line.meaning =
        filtered
            ? "the programs and cairn have it in common, so that it isn't saved; programs with a filter of "
              "their own (browsers, sandboxes) can't be saved"
            : "programs with a seccomp filter of their own (browsers, sandboxes) can't be saved: only root "
              "can read it";
}

Observation uring(const Setting&) {
    std::array<unsigned char, 120> params{};  // struct io_uring_params
    const Fd ring(static_cast<int>(::syscall(SYS_io_uring_setup, 1U, params.data())));
    if (ring) return worked("programs can use it");
    return worked(
        fmt::format("programs can't use it here ({})", errno == ENOSYS ? "not in this kernel" : "forbidden"));
}

void refine_uring(Line& line, const Observation& seen, const Setting&) {
    // Whom a filter kills for it isn't helped by cairn, nor hindered.
    if (!seen.worked()) line.state = State::note, line.remedy.clear();
    if (seen.said != "programs can use it") return;
    line.state = State::note;
    line.meaning = "a program that does so can't be saved";
    line.remedy = "start such a program by cairn launch --io-uring enosys";
}

Observation vdso(const Setting&) {
    const auto functions = vdso_functions(running_vdso());
    if (!functions) return worked("the kernel has none: programs ask the time by system calls");
    return worked(fmt::format("{} functions", functions->size()));
}

constexpr std::array probes{
    Probe{Group::checkpoint, "proc", look_at_proc, State::missing, true,
          "cairn reads of programs what /proc says; nothing can be launched, saved or restarted without it",
          "as root: mount -t proc proc /proc (in a chroot: on its proc folder)", refine_proc},
    Probe{Group::checkpoint, "ptrace", trace, State::missing, true,
          "programs can't be stopped, so none can be saved or restarted",
          "ask who runs this machine why ptrace(2) is forbidden", refine_trace},
    Probe{Group::checkpoint, "process_memory", read_and_write, State::missing, true,
          "the memory of programs can't be read, so none can be saved",
          "a kernel with CONFIG_CROSS_MEMORY_ATTACH; in a container: a seccomp filter that allows "
          "process_vm_readv",
          refine_look},
    Probe{Group::checkpoint, "descriptors", fetch_descriptor, State::missing, true,
          "open files and sockets of programs can't be looked at, so none can be saved",
          "a kernel from 5.6 on; in a container: one whose seccomp filter allows pidfd_getfd", refine_fetch},
    Probe{Group::checkpoint, "kcmp", compare, State::missing, true,
          "it isn't known which descriptors programs share",
          "a kernel with CONFIG_KCMP; in a container: a seccomp filter that allows kcmp, or "
          "--cap-add=SYS_PTRACE",
          refine_compare},
    Probe{Group::checkpoint, "close_range", close_ranges, State::missing, true,
          "copies of programs would keep their descriptors open, and restarts fail",
          "a kernel from 5.9 on; in a container: a newer runtime, whose seccomp filter knows close_range"},
    Probe{Group::checkpoint, "kernel_option", kernel_option, State::missing, false,
          "programs with seccomp filters or System V queues can't be saved, and ticks of timers are counted "
          "anew",
          "a kernel with CONFIG_CHECKPOINT_RESTORE"},
    Probe{Group::checkpoint, "thread_pidfd", thread_pidfd, State::note, false,
          "a process whose main thread has exited before the others can't be saved", "a kernel from 6.9 on"},
    Probe{Group::checkpoint, "queues.posix", posix_queue, State::missing, false,
          "there are no POSIX message queues here: programs that use them don't run",
          "a kernel with CONFIG_POSIX_MQUEUE"},
    Probe{Group::checkpoint, "queues.system_v", system_v_queue, State::missing, false,
          "System V message queues with messages in them can't be saved",
          "a kernel with CONFIG_SYSVIPC and CONFIG_CHECKPOINT_RESTORE"},
    Probe{Group::checkpoint, "seccomp", own_filter, State::note, false, "", "", refine_filter},
    Probe{Group::checkpoint, "io_uring", uring, State::note, false, "", "", refine_uring},
    Probe{Group::checkpoint, "vdso", vdso, State::note, false, "", ""},
};

}  // namespace

std::span<const Probe> checkpoint_probes() {
    return probes;
}

}  // namespace cairn::doctor
