#include "resources/lock/restore.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <sstream>

#include "common/proc.h"
#include "resources/restore/opening.h"

namespace cairn::restart {
namespace {

using schema::FileLock;
using schema::LockKind;

const char* words(LockKind kind) {
    switch (kind) {
        case LockKind::posix:
            return "a lock of the process's (fcntl F_SETLK)";
        case LockKind::description:
            return "a lock of the open file's (fcntl F_OFD_SETLK)";
        case LockKind::flock:
            return "a lock of the whole file (flock)";
        case LockKind::lease:
            return "a lease (fcntl F_SETLEASE)";
    }
    return "a lock";
}

struct flock region_of(const FileLock& lock) {
    struct flock region {};
    region.l_type = static_cast<short>(lock.type);
    region.l_whence = SEEK_SET;
    region.l_start = lock.start;
    region.l_len = lock.length;
    return region;
}

// Whoever /proc/locks names first for this file.
pid_t holder_of(int fd) {
    struct stat status {};
    auto text = proc::read_file("/proc/locks");
    if (!text || ::fstat(fd, &status) != 0) return 0;
    const auto file =
        fmt::format("{:02x}:{:02x}:{}", major(status.st_dev), minor(status.st_dev), status.st_ino);
    std::istringstream lines(*text);
    for (std::string line; std::getline(lines, line);) {
        std::istringstream fields(line);
        std::string number, kind, state, type, pid, where;
        fields >> number >> kind;
        if (kind == "->") continue;  // waits for it
        fields >> state >> type >> pid >> where;
        if (where == file) return std::atoi(pid.c_str());
    }
    return 0;
}

// 0, or who has it (-1: somebody), or an error of another kind.
Result<pid_t> try_lock(int fd, const FileLock& lock) {
    auto region = region_of(lock);
    switch (lock.kind) {
        case LockKind::posix:
            if (::fcntl(fd, F_GETLK, &region) != 0) return fail_errno("F_GETLK");
            return region.l_type == F_UNLCK ? 0 : region.l_pid;
        case LockKind::description:
            if (::fcntl(fd, F_OFD_SETLK, &region) == 0) return 0;
            break;
        case LockKind::flock:
            if (::flock(fd, (lock.type == F_WRLCK ? LOCK_EX : LOCK_SH) | LOCK_NB) == 0) return 0;
            break;
        case LockKind::lease:
            return 0;
    }
    if (errno != EAGAIN && errno != EACCES) return fail_errno("{}", words(lock.kind));
    const pid_t holder = holder_of(fd);
    return holder > 0 ? holder : -1;
}

}  // namespace

Result<> take_locks(const ObjectSet& objects, std::span<const schema::Process> processes, int patience_ms) {
    for (const schema::Process& process : processes) {
        for (const FileLock& lock : process.locks) {
            const auto descriptor = std::ranges::find(process.descriptors, lock.fd, &schema::Descriptor::fd);
            if (descriptor == process.descriptors.end()) continue;
            const auto held = TRY(objects.lend(descriptor->object));
            if (!held) continue;
            for (;;) {
                auto taken = try_lock(held.get(), lock);
                if (!taken)
                    return std::unexpected(std::move(taken.error())
                                               .in(fmt::format("process {} ({}): descriptor {}", process.pid,
                                                               process.name, lock.fd)));
                if (*taken == 0) break;
                // Who was killed just now may hold it for a moment more.
                if (patience_ms <= 0)
                    return fail_code(ExitCode::refused,
                                     "process {} ({}): descriptor {} had {}, which {} holds now", process.pid,
                                     process.name, lock.fd, words(lock.kind),
                                     *taken > 0 ? proc::label(*taken) : "somebody else");
                ::usleep(20'000);
                patience_ms -= 20;
            }
        }
    }
    return {};
}

Result<> break_leases(const ObjectSet& objects, std::span<const schema::Process> processes,
                      std::vector<std::string>& notes) {
    for (const schema::Process& process : processes) {
        for (const FileLock& lock : process.locks) {
            if (!lock.breaking) continue;
            const auto descriptor = std::ranges::find(process.descriptors, lock.fd, &schema::Descriptor::fd);
            if (descriptor == process.descriptors.end()) continue;
            const auto held = TRY(objects.lend(descriptor->object));
            if (!held) continue;
            if (::fcntl(held.get(), F_SETOWN, 0) != 0) return fail_errno("F_SETOWN");
            const int how = *lock.breaking == F_RDLCK ? O_RDONLY : O_WRONLY;
            const Fd opened(::open(fd_path(held.get()).c_str(), how | O_NONBLOCK | O_CLOEXEC));
            if (!opened && errno != EWOULDBLOCK)
                notes.push_back(
                    fmt::format("process {} ({}): descriptor {}: its lease isn't being broken any more ({})",
                                process.pid, process.name, lock.fd, std::strerror(errno)));
        }
    }
    return {};
}

std::vector<FileLock> own_locks(const schema::Process& process) {
    std::vector<FileLock> own;
    std::ranges::copy_if(process.locks, std::back_inserter(own), [](const FileLock& lock) {
        return lock.kind == LockKind::posix || lock.kind == LockKind::lease;
    });
    return own;
}

}  // namespace cairn::restart
