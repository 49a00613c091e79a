// A copy of a process shares its open files with it: each would move the other's position. So a copy opens
// them again. What it writes then goes where it went the first time, and is the same again.
#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "mpi/interposer/stand.h"

namespace cairn::mpi {
namespace {

void reopen(int fd) {
    struct stat status {};
    if (::fstat(fd, &status) != 0 || !S_ISREG(status.st_mode)) return;
    const int flags = ::fcntl(fd, F_GETFL), inherited = ::fcntl(fd, F_GETFD);
    off_t position = ::lseek(fd, 0, SEEK_CUR);
    if (flags < 0 || position < 0) return;
    // What is appended once more would be there twice; so it is written where the file ends now.
    if ((flags & O_APPEND) != 0) position = status.st_size;
    char path[64];
    std::snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    constexpr int kept = O_ACCMODE | O_NONBLOCK | O_SYNC | O_DSYNC | O_DIRECT | O_NOATIME | O_LARGEFILE;
    const int again = ::open(path, (flags & kept) | O_CLOEXEC);
    if (again < 0) return;
    if (::lseek(again, position, SEEK_SET) >= 0)
        ::dup3(again, fd, (inherited & FD_CLOEXEC) != 0 ? O_CLOEXEC : 0);
    ::close(again);
}

}  // namespace

void reopen_files() {
    // Without opendir, which takes memory from the heap.
    const int folder = ::open("/proc/self/fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder < 0) return;
    alignas(dirent64) static char entries[16384];
    int found[1024];
    std::size_t count = 0;
    for (ssize_t size = 0; (size = ::getdents64(folder, entries, sizeof entries)) > 0;)
        for (ssize_t at = 0; at < size;) {
            const auto* entry = reinterpret_cast<const dirent64*>(entries + at);
            at += entry->d_reclen;
            const int fd = entry->d_name[0] == '.' ? folder : std::atoi(entry->d_name);
            if (fd != folder && count < std::size(found)) found[count++] = fd;
        }
    ::close(folder);
    for (std::size_t i = 0; i < count; ++i) reopen(found[i]);
}

}  // namespace cairn::mpi
