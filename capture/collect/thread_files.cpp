// The files of /proc about threads that stand still: read on all processors, since of thousands of threads
// each costs as much as everything that is asked by ptrace.
#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <charconv>
#include <thread>
#include <vector>

#include "capture/collect/collect.h"
#include "common/fd.h"
#include "common/helper_threads.h"
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

// A folder /proc/PID/task/TID and its namespaces, which are opened once for all that is read in them: a path
// costs as much for each of its parts as what is read.
class TaskFolder {
  public:
    TaskFolder(pid_t pid, pid_t tid)
        : path_(fmt::format("/proc/{}/task/{}", pid, tid)),
          folder_(::open(path_.c_str(), O_PATH | O_CLOEXEC)),
          namespaces_(folder_ ? ::openat(folder_.get(), "ns", O_PATH | O_CLOEXEC) : -1) {}

    [[nodiscard]] Result<proc::Status> status() const {
        if (!folder_) return std::unexpected(Error{path_ + ": no such thread", ESRCH});
        return proc::Status(TRY(proc::read_file_in(folder_.get(), "status")));
    }
    // What the link leads to is read, "net:[4026531840]", and not looked at: stat(2) makes an inode of nsfs
    // for each.
    [[nodiscard]] std::uint64_t number_of(const char* name) const {
        std::array<char, 64> text = {};
        const ssize_t length =
            namespaces_ ? ::readlinkat(namespaces_.get(), name, text.data(), text.size()) : -1;
        const std::string_view link(text.data(), static_cast<std::size_t>(std::max(length, ssize_t{0})));
        const auto digits = link.find('[');
        std::uint64_t number = 0;
        if (digits != std::string_view::npos)
            std::from_chars(link.data() + digits + 1, link.data() + link.size(), number);
        return number;
    }

  private:
    std::string path_;
    Fd folder_, namespaces_;
};

struct Read {
    StoppedProcess* process;
    StoppedThread* thread;
    Result<> done = {};
    NamespacesOfThread namespaces;
};

void read(Read& one) {
    const TaskFolder folder(one.process->pid, one.thread->tid);
    if (auto status = folder.status())
        one.thread->status = std::move(*status);
    else
        one.done = std::unexpected(std::move(status).error());
    for (std::size_t i = 0; i < of_threads.size(); ++i)
        one.namespaces.alone.at(i) = folder.number_of(of_threads.at(i).file);
    one.namespaces.time_of_children = folder.number_of("time_for_children");
}

void read_all(std::vector<Read>& all) {
    constexpr std::size_t few = 16;
    constexpr unsigned most = 8;
    std::atomic<std::size_t> next = 0;
    const auto work = [&] {
        for (std::size_t i = next++; i < all.size(); i = next++) read(all[i]);
    };
    const auto wanted = std::clamp(std::thread::hardware_concurrency(), 1U, most) - 1;
    const auto helpers = helper_threads(all.size() < few ? 0 : wanted, work);
    work();
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
            if (!thread.leader_dead) all.push_back({&process, &thread, {}, {}});
    read_all(all);
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
        CHECK_OK(std::move(one.done));
        CHECK_OK(refuse_namespaces(one, first->namespaces, time));
    }
    return {};
}

}  // namespace cairn::capture
