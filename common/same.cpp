#include "common/same.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/kcmp.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <memory>
#include <optional>
#include <set>

#include "common/fd.h"
#include "common/proc.h"

namespace cairn {
namespace {

long kcmp(pid_t one, pid_t other, int type, int first = 0, int second = 0) {
    return ::syscall(SYS_kcmp, one, other, type, first, second);
}

bool same_start(const proc::Stat& one, const proc::Stat& other) {
    return one.start_code == other.start_code && one.start_stack == other.start_stack &&
           one.arg_start == other.arg_start && one.env_start == other.env_start;
}

// What a core dump would hold (core(5)) is a property of the memory, which can be read and written in /proc.
// Its bit for shared memory of DAX files is turned in one and looked at in the other: nobody will miss it,
// should we be killed between.
class DumpFilter {
  public:
    explicit DumpFilter(pid_t pid) : path_(fmt::format("/proc/{}/coredump_filter", pid)) {}
    [[nodiscard]] std::optional<std::uint64_t> read() const {
        const auto text = proc::read_file(path_);
        if (!text || text->empty()) return {};
        return proc::hexadecimal(*text);
    }
    [[nodiscard]] bool write(std::uint64_t value) const {
        const Fd fd(::open(path_.c_str(), O_WRONLY | O_CLOEXEC));
        const std::string text = fmt::format("{:#x}", value);
        return fd && ::write(fd.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size());
    }

  private:
    std::string path_;
};

bool share_dump_filter(pid_t one, pid_t other) {
    constexpr std::uint64_t dax_shared = 1 << 8;
    const auto first = proc::stat(one), second = proc::stat(other);
    if (!first || !second || !same_start(*first, *second)) return false;
    const DumpFilter turned(one), seen(other);
    const auto before = turned.read();
    if (!before || seen.read() != before || !turned.write(*before ^ dax_shared)) return false;
    const bool shared = seen.read() == (*before ^ dax_shared);
    return turned.write(*before) && shared;
}

// Number of a descriptor -> what it leads to.
std::map<std::string, std::string> open_in(pid_t pid, pid_t tid) {
    std::map<std::string, std::string> result;
    const std::string folder = fmt::format("/proc/{}/task/{}/fd", pid, tid);
    const std::unique_ptr<DIR, int (*)(DIR*)> entries(::opendir(folder.c_str()), &::closedir);
    if (!entries) return result;
    while (const dirent* entry = ::readdir(entries.get()))
        if (entry->d_name[0] != '.')
            result.emplace(entry->d_name, proc::read_link(folder + "/" + entry->d_name).value_or(""));
    return result;
}

// For which signal a description asks (F_SETSIG) is a property of it alone. 0 and SIGIO both mean SIGIO, so
// that turning the one to the other is felt by nobody.
Result<bool> same_signal(int one, int other) {
    const int flags = ::fcntl(one, F_GETFL), signal = ::fcntl(one, F_GETSIG);
    if (flags != ::fcntl(other, F_GETFL)) return false;
    if ((flags & O_PATH) != 0) return true;  // it has nothing in which two could differ
    if (signal != ::fcntl(other, F_GETSIG)) return false;
    if (signal != 0 && signal != SIGIO && (flags & O_ASYNC) != 0)
        return fail_code(ExitCode::refused,
                         "kcmp is forbidden here, and descriptors that ask for signal {} can't be compared "
                         "without it; in a "
                         "container: start it with --cap-add=SYS_PTRACE",
                         signal);
    const int mark = signal == SIGIO ? 0 : SIGIO;
    if (::fcntl(one, F_SETSIG, mark) != 0) return fail_errno("F_SETSIG");
    const bool same = ::fcntl(other, F_GETSIG) == mark;
    if (::fcntl(one, F_SETSIG, signal) != 0) return fail_errno("F_SETSIG");
    return same;
}

bool same_file(int one, int other) {
    struct stat first {
    }, second{};
    return ::fstat(one, &first) == 0 && ::fstat(other, &second) == 0 && first.st_dev == second.st_dev &&
           first.st_ino == second.st_ino;
}

int kcmp_type(Common what) {
    switch (what) {
        case Common::memory:
            return KCMP_VM;
        case Common::descriptors:
            return KCMP_FILES;
        case Common::folders:
            return KCMP_FS;
        case Common::semaphore_undo:
            return KCMP_SYSVSEM;
    }
    std::abort();
}

// Whether a thread has no list of operations on semaphores to be undone, as a new process has none. Not by a
// look at ourselves: a process that has ever had threads has a list (pthread_create(3) says CLONE_SYSVSEM,
// and copy_semundo() of ipc/sem.c makes one).
Result<bool> has_no_undo_list(pid_t tid) {
    const pid_t none = ::fork();
    if (none == 0) {
        ::prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (;;) ::pause();
    }
    if (none < 0)
        return fail_errno(
            "no process can be made, by which programs that share something would be told from those "
            "that have nothing to share (`ulimit -u`, the cgroup's pids.max)");
    const bool same = kcmp(none, tid, KCMP_SYSVSEM) == 0;
    ::kill(none, SIGKILL);
    while (::waitpid(none, nullptr, 0) < 0 && errno == EINTR) {
    }
    return same;
}

}  // namespace

bool kcmp_is_allowed() {
    // Asked once in each process: a child may have been given a filter that its parent hasn't.
    static std::atomic<std::int64_t> known{0};
    const pid_t self = ::getpid();
    std::int64_t now = known;
    if (now / 2 != self) {
        now = std::int64_t{self} * 2 + (kcmp(self, self, KCMP_VM) == 0 ? 1 : 0);
        known = now;
    }
    return now % 2 == 1;
}

bool share_memory(pid_t one, pid_t other) {
    return kcmp_is_allowed() ? kcmp(one, other, KCMP_VM) == 0 : share_dump_filter(one, other);
}

bool share_descriptors(pid_t pid, pid_t one, pid_t other) {
    return kcmp_is_allowed() ? kcmp(one, other, KCMP_FILES) <= 0 : open_in(pid, one) == open_in(pid, other);
}

bool share_folders(pid_t pid, pid_t one, pid_t other) {
    if (kcmp_is_allowed()) return kcmp(one, other, KCMP_FS) <= 0;
    const auto link = [&](pid_t tid, const char* name) {
        return proc::read_link(fmt::format("/proc/{}/task/{}/{}", pid, tid, name)).value_or("");
    };
    const auto mask = [&](pid_t tid) {
        const auto status = proc::status(pid, tid);
        return status ? (*status)["Umask"] : "";
    };
    return link(one, "cwd") == link(other, "cwd") && link(one, "root") == link(other, "root") &&
           mask(one) == mask(other);
}

Result<std::optional<std::pair<pid_t, pid_t>>> find_common(Common what, const std::vector<pid_t>& tids) {
    const int type = kcmp_type(what);
    // kcmp says 1 for the lesser of two, by an order that is the kernel's own. A set, because it stays sound
    // where the order changes: in who is killed meanwhile there is nothing any more.
    const auto less = [type](pid_t one, pid_t other) { return kcmp(one, other, type) == 1; };
    std::set<pid_t, decltype(less)> seen(less);
    std::optional<pid_t> without;  // one that has no list: all who have none compare as equal
    for (const pid_t tid : tids) {
        if (kcmp(tid, tid, type) != 0) continue;  // forbidden, or it has gone
        const auto [found, is_new] = seen.insert(tid);
        if (is_new || kcmp(*found, tid, type) != 0 || without == *found) continue;
        const bool none = what == Common::semaphore_undo && TRY(has_no_undo_list(tid));
        if (!none) return std::optional(std::pair{*found, tid});
        without = *found;
    }
    return std::nullopt;
}

Result<bool> same_description(int one, int other) {
    if (kcmp_is_allowed()) {
        const pid_t self = ::getpid();
        const long order = kcmp(self, self, KCMP_FILE, one, other);
        if (order < 0) return fail_errno("kcmp: descriptors can't be compared");
        return order == 0;
    }
    constexpr int dupfd_query = 1024 + 3;  // F_DUPFD_QUERY of linux/fcntl.h, since 6.10
    if (const int same = ::fcntl(one, dupfd_query, other); same >= 0) return same == 1;
    if (!same_file(one, other)) return false;
    return same_signal(one, other);
}

}  // namespace cairn
