#include "capture/collect/thread_files.h"

#include <fcntl.h>
#include <malloc.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <limits>
#include <memory>
#include <string>
#include <thread>

#include "capture/collect/collect.h"
#include "common/each_in_parallel.h"
#include "common/fd.h"
#include "common/helper_threads.h"
#include "common/namespace_folder.h"
#include "common/same.h"

namespace cairn::capture {
namespace {

struct NamespaceWords {
    const char *file, *name;
};
// pid_for_children is there since Linux 4.12.
constexpr std::array of_threads = {NamespaceWords{"net", "network"}, NamespaceWords{"uts", "host name"},
                                   NamespaceWords{"ipc", "System V IPC"}, NamespaceWords{"cgroup", "cgroup"},
                                   NamespaceWords{"pid_for_children", "pid (for its children)"}};
constexpr NamespaceWords mounts = {"mnt", "mount"};

proc::NamespaceFolder namespaces_of(pid_t pid, pid_t tid) {
    return proc::NamespaceFolder(fmt::format("/proc/{}/task/{}", pid, tid));
}

// Who has his folders with another thread (CLONE_FS) has the mount namespace with it: unshare(2) gives him
// folders of his own first, and setns(2) refuses it. Without kcmp that isn't known.
bool may_have_other_mounts(const StoppedProcess& process, const StoppedThread& thread) {
    return thread.tid != process.first_living().tid && (!kcmp_is_allowed() || thread.asked->own_folders);
}

// Two more names than threads (proc_task_getattr(), fs/proc/base.c). 0: it has gone.
std::size_t links_of_tasks(pid_t pid) {
    struct stat status = {};
    return ::stat(fmt::format("/proc/{}/task", pid).c_str(), &status) == 0 ? status.st_nlink : 0;
}

// malloc keeps it, and gives it out first.
void touch_heap(std::size_t bytes) {
    constexpr std::size_t piece = 64 << 10, page = 4096;
    ::mallopt(M_MMAP_THRESHOLD, 32 << 20);  // the most that malloc takes
    ::mallopt(M_TRIM_THRESHOLD, std::numeric_limits<int>::max());
    std::vector<std::unique_ptr<volatile char[]>> pieces;
    for (std::size_t at = 0; at < bytes; at += piece) {
        auto& made = pieces.emplace_back(new volatile char[piece]);
        for (std::size_t i = 0; i < piece; i += page) made[i] = 0;
    }
}

}  // namespace

void prepare_for_threads(const std::vector<pid_t>& processes) {
    constexpr std::size_t few = 64, of_each = 6 << 10;
    std::vector<std::string> folders;
    for (const pid_t pid : processes) {
        if (links_of_tasks(pid) < few) continue;
        for (const pid_t tid : proc::tasks(pid).value_or(std::vector<pid_t>{}))
            folders.push_back(fmt::format("/proc/{}/task/{}", pid, tid));
    }
    if (folders.empty()) return;
    touch_heap(folders.size() * of_each);
    (void)each_in_parallel(
        folders.size(),
        [&](std::size_t i) -> Result<> {
            const Fd folder(::open(folders[i].c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
            const auto look_at = [&](const std::string& name) {
                struct stat status = {};
                (void)::fstatat(folder.get(), name.c_str(), &status, AT_SYMLINK_NOFOLLOW);
            };
            for (const char* name : {"status", "children", "ns/time_for_children"}) look_at(name);
            for (const auto& each : of_threads) look_at(std::string("ns/") + each.file);
            return {};
        },
        Work::computes, few);
}

ThreadFiles::ThreadFiles(std::map<pid_t, StoppedProcess>& processes) {
    std::size_t count = 0;
    for (const auto& [pid, process] : processes)
        for (const auto& thread : process.threads)
            if (!thread.leader_dead) ++count;
    all_ = std::vector<Each>(count);
    auto next = all_.begin();
    for (auto& [pid, process] : processes) {
        const auto from = static_cast<std::size_t>(next - all_.begin());
        for (auto& thread : process.threads) {
            if (thread.leader_dead) continue;
            next->process = &process;
            next->thread = &thread;
            ++next;
        }
        places_[pid] = {from, static_cast<std::size_t>(next - all_.begin())};
    }
    constexpr std::size_t few = 16, most = 7;  // fewer are asked sooner than a helper has begun
    const std::size_t others = std::clamp<std::size_t>(std::thread::hardware_concurrency(), 1, most + 1) - 1;
    if (count >= few) helpers_ = helper_threads(others, help_);
}

// What is waited for first comes first.
void ThreadFiles::help() {
    for (auto& one : all_) {
        if (ended_) return;
        ask(one);
    }
    for (auto& one : all_) {
        if (ended_) return;
        look(one);
    }
}

void ThreadFiles::ask(Each& one) {
    one.asking.unless_begun([&] {
        const pid_t pid = one.process->pid, tid = one.thread->tid;
        auto status = proc::status(pid, tid);
        if (status)
            one.thread->asked = ask_of_thread(*one.process, tid, std::move(*status));
        else
            one.failed = std::move(status.error());
    });
}

// One that is alone can't differ from others.
bool ThreadFiles::has_siblings(const Each& one) {
    return one.process->threads.size() > 1;
}

void ThreadFiles::look(Each& one) {
    if (!has_siblings(one)) return;
    one.looking.unless_begun([&] {
        const auto folder = namespaces_of(one.process->pid, one.thread->tid);
        for (std::size_t i = 0; i < of_threads.size(); ++i)
            one.namespaces.alone.at(i) = folder.number_of(of_threads.at(i).file);
        one.namespaces.time_of_children = folder.number_of("time_for_children");
    });
}

Result<> ThreadFiles::ask(const StoppedProcess& process) {
    const auto [from, to] = places_.at(process.pid);
    for (std::size_t i = from; i < to; ++i) ask(all_[i]);
    for (std::size_t i = from; i < to; ++i) {
        all_[i].asking.wait();
        if (all_[i].failed) return std::unexpected(std::move(*all_[i].failed));
    }
    return {};
}

// What a process has of its own is saved (ObjectTable::namespaces()), but once for all its threads, each of
// which may leave alone. One may also have chosen another pid or time namespace for its children than it is
// in itself: those that it makes after a restart would be born into its own. A pid namespace that has no
// process yet has no file (fs/proc/namespaces.c). No thread can change its own time namespace alone
// (timens_install(), kernel/time/namespace.c). Another pid namespace for its children is judged when it is
// known who they are (inner_ids.cpp). `time`: of the process; 0 before Linux 5.6.
Result<> ThreadFiles::refuse_namespaces(const Each& one, const Namespaces& first, std::uint64_t time) {
    const auto& process = *one.process;
    const pid_t tid = one.thread->tid, leader = process.first_living().tid;
    const auto refuse_other = [&](const char* name) {
        return fail_code(
            ExitCode::refused,
            "{}: thread {} is in another {} namespace than the process's others (unshare, setns), "
            "which can't be saved",
            proc::label(process.pid), tid, name);
    };
    for (std::size_t i = 0; i < of_threads.size(); ++i)
        if (one.namespaces.alone.at(i) != first.alone.at(i)) return refuse_other(of_threads.at(i).name);
    if (may_have_other_mounts(process, *one.thread) &&
        namespaces_of(process.pid, tid).number_of(mounts.file) !=
            namespaces_of(process.pid, leader).number_of(mounts.file))
        return refuse_other(mounts.name);
    // Of one that is alone it is saved: Process::clocks_of_children.
    if (time != 0 && one.namespaces.time_of_children != time)
        return fail_code(
            ExitCode::refused,
            "{} has another time namespace for its children than for itself (unshare, setns), which "
            "can't be saved",
            proc::label(process.pid));
    return {};
}

Result<> ThreadFiles::refuse_other_namespaces() {
    const bool has_times = namespaces_of(::getpid(), ::getpid()).number_of("time_for_children") != 0;
    const Each* first = nullptr;  // of the same process
    std::uint64_t time = 0;
    for (auto& one : all_) look(one);
    for (const auto& one : all_) {
        if (!has_siblings(one)) continue;
        one.looking.wait();
        if (first == nullptr || first->process != one.process) {
            first = &one;
            const auto folder = namespaces_of(one.process->pid, one.thread->tid);
            time = has_times ? folder.number_of("time") : 0;
        }
        CHECK_OK(refuse_namespaces(one, first->namespaces, time));
    }
    return {};
}

}  // namespace cairn::capture
