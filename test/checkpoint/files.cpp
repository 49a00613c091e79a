// Open files: offsets, flags, close-on-exec, shared descriptions, append, directories, O_PATH, O_TMPFILE,
// unlinked ones with contents, /dev and /proc files, a file that many hold.
// rain: soak
// narrow: exact user
#include <dirent.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <initializer_list>
#include <string>

#include "support.h"

namespace {
int made(const char* name, int flags, const char* text) {
    const int fd = open(name, flags | O_CREAT, 0640);
    CHECK(fd >= 0);
    if (text != nullptr) CHECK(write(fd, text, std::strlen(text)) == static_cast<ssize_t>(std::strlen(text)));
    return fd;
}
std::string contents(int fd) {
    char text[256];
    const ssize_t got = pread(fd, text, sizeof text, 0);
    CHECK(got >= 0);
    return {text, static_cast<size_t>(got)};
}
std::string link_of(int fd) {
    char text[512];
    const ssize_t got = readlink(("/proc/self/fd/" + std::to_string(fd)).c_str(), text, sizeof text);
    CHECK(got > 0);
    return {text, static_cast<size_t>(got)};
}
bool same_description(int a, int b) {
    const off_t was = lseek(a, 0, SEEK_CUR), other = lseek(b, 0, SEEK_CUR);
    CHECK(lseek(a, was + 1, SEEK_SET) == was + 1);
    const bool same = lseek(b, 0, SEEK_CUR) == was + 1 && was == other;
    CHECK(lseek(a, was, SEEK_SET) == was);
    return same;
}
}  // namespace

int main() {
    const int plain = made("plain", O_RDWR | O_TRUNC, "0123456789");
    CHECK(lseek(plain, 4, SEEK_SET) == 4);
    const int copy = dup(plain);
    const int high = fcntl(plain, F_DUPFD_CLOEXEC, 700);
    CHECK(copy >= 0 && high >= 700);
    const int again = open("plain", O_RDONLY);  // same file, another description
    CHECK(again >= 0 && lseek(again, 7, SEEK_SET) == 7);
    const int append = made("appended", O_WRONLY | O_APPEND | O_TRUNC, "begin\n");
    const int read_only = open("plain", O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    const int direct = open("plain", O_RDONLY | O_NOFOLLOW | O_NOATIME);
    CHECK(read_only >= 0 && direct >= 0);
    const int unlinked = made("unlinked", O_RDWR | O_TRUNC, "nobody sees me");
    CHECK(unlink("unlinked") == 0 && lseek(unlinked, 3, SEEK_SET) == 3);
    const int unlinked_reader = open(("/proc/self/fd/" + std::to_string(unlinked)).c_str(), O_RDONLY);
    CHECK(unlinked_reader >= 0);
    const int temporary = open(".", O_TMPFILE | O_RDWR, 0600);
    if (temporary >= 0) CHECK(write(temporary, "temporary", 9) == 9);
    const int renamed = made("before", O_RDWR | O_TRUNC, "renamed");
    CHECK(rename("before", "after") == 0);
    mkdir("folder", 0755);
    for (int i = 0; i < 20; ++i) close(made(("folder/f" + std::to_string(i)).c_str(), O_WRONLY, nullptr));
    const int folder = open("folder", O_RDONLY | O_DIRECTORY);
    CHECK(folder >= 0);
    const int path = open("plain", O_PATH);
    const int path_folder = open("folder", O_PATH | O_DIRECTORY);
    CHECK(path >= 0 && path_folder >= 0);
    const int null = open("/dev/null", O_RDWR), zero = open("/dev/zero", O_RDONLY),
              full = open("/dev/full", O_WRONLY), random = open("/dev/urandom", O_RDONLY);
    const int status = open("/proc/self/status", O_RDONLY), uptime = open("/proc/uptime", O_RDONLY);
    CHECK(null >= 0 && zero >= 0 && full >= 0 && random >= 0 && status >= 0 && uptime >= 0);
    FILE* stream = std::fopen("stream", "w+");
    CHECK(stream != nullptr && std::fprintf(stream, "in the buffer") > 0);  // not yet written
    // Holes and sizes: a file that was open for writing beyond its end.
    const int sparse = made("sparse", O_RDWR | O_TRUNC, nullptr);
    CHECK(ftruncate(sparse, 1 << 20) == 0 && lseek(sparse, 1 << 19, SEEK_SET) == 1 << 19);

    int round = 0;
    test::serve([&](bool last) {
        ++round;
        CHECK(lseek(plain, 0, SEEK_CUR) == 4 && lseek(again, 0, SEEK_CUR) == 7);
        CHECK(same_description(plain, copy) && same_description(plain, high) &&
              !same_description(plain, again));
        CHECK(fcntl(plain, F_GETFD) == 0 && fcntl(high, F_GETFD) == FD_CLOEXEC &&
              fcntl(read_only, F_GETFD) == FD_CLOEXEC);
        CHECK((fcntl(plain, F_GETFL) & (O_ACCMODE | O_APPEND | O_NONBLOCK)) == O_RDWR);
        CHECK((fcntl(append, F_GETFL) & (O_ACCMODE | O_APPEND)) == (O_WRONLY | O_APPEND));
        CHECK((fcntl(read_only, F_GETFL) & (O_ACCMODE | O_NONBLOCK)) == (O_RDONLY | O_NONBLOCK));
        CHECK((fcntl(direct, F_GETFL) & O_NOATIME) != 0);
        // Appends where the file ends, whoever else has written meanwhile.
        const int other = open("appended", O_WRONLY | O_APPEND);
        CHECK(other >= 0 && write(other, "x", 1) == 1);
        close(other);
        struct stat before {
        }, after{};
        CHECK(fstat(append, &before) == 0 && write(append, "y", 1) == 1 && fstat(append, &after) == 0);
        CHECK(after.st_size == before.st_size + 1);
        CHECK(contents(unlinked) == "nobody sees me" && lseek(unlinked, 0, SEEK_CUR) == 3);
        CHECK(access("unlinked", F_OK) != 0 && fstat(unlinked, &before) == 0 && before.st_nlink == 0);
        CHECK((before.st_mode & 0777) == 0640);
        CHECK(contents(unlinked_reader) == "nobody sees me" && fstat(unlinked_reader, &after) == 0);
        CHECK(before.st_ino == after.st_ino && before.st_dev == after.st_dev);
        CHECK(write(unlinked_reader, "z", 1) == -1 && errno == EBADF);
        if (temporary >= 0) {
            CHECK(contents(temporary) == "temporary" && fstat(temporary, &before) == 0 &&
                  before.st_nlink == 0);
            CHECK(lseek(temporary, 0, SEEK_CUR) == 9);
        }
        CHECK(contents(renamed) == "renamed" && link_of(renamed).ends_with("/after"));
        // The directory is listed from its beginning, whatever its position was.
        CHECK(lseek(folder, 0, SEEK_SET) == 0);
        DIR* listing = fdopendir(dup(folder));
        CHECK(listing != nullptr);
        int names = 0;
        while (const dirent* entry = readdir(listing)) names += entry->d_name[0] == 'f';
        closedir(listing);
        CHECK(names == 20);
        const int inside = openat(path_folder, "f7", O_RDONLY);
        CHECK(inside >= 0);
        close(inside);
        char byte = 1;
        CHECK(read(path, &byte, 1) == -1 && errno == EBADF && (fcntl(path, F_GETFL) & O_PATH) != 0);
        CHECK(fstat(path, &after) == 0 && fstat(plain, &before) == 0 && before.st_ino == after.st_ino);
        CHECK(write(null, "x", 1) == 1 && read(null, &byte, 1) == 0);
        CHECK(read(zero, &byte, 1) == 1 && byte == 0);
        CHECK(write(full, "x", 1) == -1 && errno == ENOSPC);
        CHECK(read(random, &byte, 1) == 1);
        char text[4096] = "";
        CHECK(pread(status, text, sizeof text - 1, 0) > 0);
        CHECK(std::strstr(text, "files") != nullptr);  // still the status of this very process
        // The ids in the text are the kernel's, whatever the program believes.
        CHECK(pread(uptime, text, sizeof text - 1, 0) > 0);
        CHECK(fstat(sparse, &before) == 0 && before.st_size == 1 << 20 &&
              lseek(sparse, 0, SEEK_CUR) == 1 << 19);
        // The lowest free number is what it would have been: nothing of ours is left open.
        const int free_one = dup(null);
        CHECK(free_one >= 0);
        static int first_free = free_one;
        CHECK(free_one == first_free);
        close(free_one);
        if (!last) return;
        CHECK(read(plain, text, 3) == 3 && std::memcmp(text, "456", 3) == 0);
        CHECK(std::fclose(stream) == 0);
        const int stream_fd = open("stream", O_RDONLY);
        CHECK(contents(stream_fd) == "in the buffer");
        CHECK(linkat(AT_FDCWD, ("/proc/self/fd/" + std::to_string(temporary)).c_str(), AT_FDCWD, "linked",
                     AT_SYMLINK_FOLLOW) == 0 ||
              temporary < 0 || errno == ENOENT);
    });
}
