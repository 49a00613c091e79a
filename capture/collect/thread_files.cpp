// The files of /proc about threads that stand still: read on all processors, since of thousands of threads
// each costs as much as everything that is asked by ptrace.
#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <vector>

#include "capture/collect/collect.h"
#include "common/each_in_parallel.h"
#include "common/fd.h"
#include "common/namespace_folder.h"
#include "common/same.h"

namespace cairn::capture {
namespace {

struct NamespaceWords {
    const char *file, *name;
};
// What a thread may have of its own; pid_for_children is there since Linux 4.12.
constexpr std::array of_threads = {NamespaceWords{"net", "network"}, NamespaceWords{"uts", "host name"},
                                   NamespaceWords{"ipc", "System V IPC"}, NamespaceWords{"cgroup", "cgroup"},
                                   NamespaceWords{"pid_for_children", "pid (for its children)"}};
constexpr NamespaceWords mounts = {"mnt", "mount"};

// The numbers of its namespaces. 0: the kernel has none of this name, or the thread has ended.
struct NamespacesOfThread {
    std::array<std::uint64_t, of_threads.size()> alone = {};  // as in of_threads
    std::uint64_t time_of_children = 0;
};

// A folder /proc/PID/task/TID and its namespaces, which are opened once for all that is read in them.
class TaskFolder {
  public:
    TaskFolder(pid_t pid, pid_t tid)
        : path_(fmt::format("/proc/{}/task/{}", pid, tid)),
          folder_(::open(path_.c_str(), O_PATH | O_CLOEXEC)),
          namespaces_(folder_) {}

    [[nodiscard]] Result<proc::Status> status() const {
        if (!folder_) return std::unexpected(Error{path_ + ": no such thread", ESRCH});
        return proc::Status(TRY(proc::read_file_in(folder_.get(), "status")));
    }
    [[nodiscard]] std::uint64_t number_of(const char* name) const { return namespaces_.number_of(name); }

  private:
    std::string path_;
    Fd folder_;
    proc::NamespaceFolder namespaces_;
};

struct Read {
    StoppedProcess* process;
    StoppedThread* thread;
    NamespacesOfThread namespaces;
};

Result<> read(Read& one) {
    const TaskFolder folder(one.process->pid, one.thread->tid);
    one.thread->status = TRY(folder.status());
    for (std::size_t i = 0; i < of_threads.size(); ++i)
        one.namespaces.alone.at(i) = folder.number_of(of_threads.at(i).file);
    one.namespaces.time_of_children = folder.number_of("time_for_children");
    return {};
}

// Who has his folders with another thread (CLONE_FS) has the mount namespace with it: unshare(2) gives him
// folders of his own first, and setns(2) refuses it. Without kcmp that isn't known.
bool may_have_other_mounts(const StoppedProcess& process, pid_t tid) {
    const pid_t first = process.first_living().tid;
    return tid != first && (!kcmp_is_allowed() || !share_folders(process.pid, first, tid));
}

// What a process has of its own is saved (ObjectTable::namespaces()), but once for all its threads, each of
// which may leave alone. One may also have chosen another pid or time namespace for its children than it is
// in itself: those that it makes after a restart would be born into its own. A pid namespace that has no
// process yet has no file (fs/proc/namespaces.c). No thread can change its own time namespace alone
// (timens_install(), kernel/time/namespace.c). Another pid namespace for its children is judged when it is
// known who they are (inner_ids.cpp). `time`: of the process; 0 before Linux 5.6.
Result<> refuse_namespaces(const Read& one, const NamespacesOfThread& first, std::uint64_t time) {
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
    if (may_have_other_mounts(process, tid) && TaskFolder(process.pid, tid).number_of(mounts.file) !=
                                                   TaskFolder(process.pid, leader).number_of(mounts.file))
        return refuse_other(mounts.name);
    const bool alone = process.threads.size() == 1;  // then it is saved: Process::clocks_of_children
    if (!alone && time != 0 && one.namespaces.time_of_children != time)
        return fail_code(
            ExitCode::refused,
            "{} has another time namespace for its children than for itself (unshare, setns), which "
            "can't be saved",
            proc::label(process.pid));
    return {};
}

}  // namespace

Result<> collect_files_of_threads(std::map<pid_t, StoppedProcess>& processes) {
    std::vector<Read> all;
    for (auto& [pid, process] : processes)
        for (auto& thread : process.threads)
            if (!thread.leader_dead) all.push_back({&process, &thread, {}});
    constexpr std::size_t few = 16;
    CHECK_OK(each_in_parallel(
        all.size(), [&](std::size_t i) { return read(all[i]); }, Work::computes, few));
    const bool has_times = TaskFolder(::getpid(), ::getpid()).number_of("time_for_children") != 0;
    const Read* first = nullptr;  // of the same process
    std::uint64_t time = 0;
    for (auto& one : all) {
        if (first == nullptr || first->process != one.process) {
            first = &one;
            time = has_times && one.process->threads.size() > 1
                       ? TaskFolder(one.process->pid, one.thread->tid).number_of("time")
                       : 0;
        }
        CHECK_OK(refuse_namespaces(one, first->namespaces, time));
    }
    return {};
}

}  // namespace cairn::capture
