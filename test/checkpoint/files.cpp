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

test::Check offsets_and_descriptions() {
    const int plain = made("plain", O_RDWR | O_TRUNC, "0123456789");
    CHECK(lseek(plain, 4, SEEK_SET) == 4);
    const int copy = dup(plain);
    const int high = fcntl(plain, F_DUPFD_CLOEXEC, 700);
    CHECK(copy >= 0 && high >= 700);
    const int again = open("plain", O_RDONLY);  // same file, another description
    CHECK(again >= 0 && lseek(again, 7, SEEK_SET) == 7);
    return [=](bool last) {
        CHECK(lseek(plain, 0, SEEK_CUR) == 4 && lseek(again, 0, SEEK_CUR) == 7);
        CHECK(same_description(plain, copy) && same_description(plain, high) &&
              !same_description(plain, again));
        CHECK(fcntl(plain, F_GETFD) == 0 && fcntl(high, F_GETFD) == FD_CLOEXEC);
        CHECK((fcntl(plain, F_GETFL) & (O_ACCMODE | O_APPEND | O_NONBLOCK)) == O_RDWR);
        struct stat here {
        }, there{};
        CHECK(fstat(plain, &here) == 0 && stat("plain", &there) == 0 && here.st_ino == there.st_ino);
        char text[3];
        if (last) CHECK(read(plain, text, 3) == 3 && std::memcmp(text, "456", 3) == 0);
    };
}

test::Check flags() {
    const int read_only = open("plain", O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    const int direct = open("plain", O_RDONLY | O_NOFOLLOW | O_NOATIME);
    CHECK(read_only >= 0 && direct >= 0);
    return [=](bool) {
        CHECK(fcntl(read_only, F_GETFD) == FD_CLOEXEC);
        CHECK((fcntl(read_only, F_GETFL) & (O_ACCMODE | O_NONBLOCK)) == (O_RDONLY | O_NONBLOCK));
        CHECK((fcntl(direct, F_GETFL) & O_NOATIME) != 0);
    };
}

// It appends where the file ends, whoever else has written meanwhile.
// As git has its packs, and gunicorn the file that its workers touch.
test::Check forbidden_by_its_mode() {
    const int named = made("forbidden", O_RDWR | O_TRUNC, "named"),
              removed = made("soon gone", O_RDWR | O_TRUNC, "removed");
    CHECK(fchmod(named, 0) == 0 && fchmod(removed, 0) == 0 && unlink("soon gone") == 0);
    return [=](bool) {
        struct stat status {};
        char text[8] = {};
        CHECK(fstat(named, &status) == 0 && (status.st_mode & 07777) == 0);
        CHECK(pread(named, text, 7, 0) == 5 && std::string(text) == "named");
        CHECK(fstat(removed, &status) == 0 && (status.st_mode & 07777) == 0);
        CHECK(pread(removed, text, 7, 0) == 7 && std::string(text, 7) == "removed");
        CHECK(pwrite(named, "n", 1, 0) == 1 && pwrite(removed, "r", 1, 0) == 1);
    };
}
test::Check append() {
    const int fd = made("appended", O_WRONLY | O_APPEND | O_TRUNC, "begin\n");
    return [=](bool) {
        CHECK((fcntl(fd, F_GETFL) & (O_ACCMODE | O_APPEND)) == (O_WRONLY | O_APPEND));
        const int other = open("appended", O_WRONLY | O_APPEND);
        CHECK(other >= 0 && write(other, "x", 1) == 1);
        close(other);
        struct stat before {
        }, after{};
        CHECK(fstat(fd, &before) == 0 && write(fd, "y", 1) == 1 && fstat(fd, &after) == 0);
        CHECK(after.st_size == before.st_size + 1);
    };
}

test::Check unlinked() {
    const int fd = made("unlinked", O_RDWR | O_TRUNC, "nobody sees me");
    CHECK(unlink("unlinked") == 0 && lseek(fd, 3, SEEK_SET) == 3);
    const int reader = open(("/proc/self/fd/" + std::to_string(fd)).c_str(), O_RDONLY);
    CHECK(reader >= 0);
    return [=](bool) {
        struct stat own {
        }, of_reader{};
        CHECK(contents(fd) == "nobody sees me" && lseek(fd, 0, SEEK_CUR) == 3);
        CHECK(access("unlinked", F_OK) != 0 && fstat(fd, &own) == 0 && own.st_nlink == 0);
        CHECK((own.st_mode & 0777) == 0640);
        CHECK(contents(reader) == "nobody sees me" && fstat(reader, &of_reader) == 0);
        CHECK(own.st_ino == of_reader.st_ino && own.st_dev == of_reader.st_dev);
        CHECK(write(reader, "z", 1) == -1 && errno == EBADF);
    };
}

test::Check never_linked() {
    const int temporary = open(".", O_TMPFILE | O_RDWR, 0600);
    if (temporary >= 0) CHECK(write(temporary, "temporary", 9) == 9);
    return [=](bool last) {
        if (temporary < 0) return;
        struct stat status {};
        CHECK(contents(temporary) == "temporary" && fstat(temporary, &status) == 0 && status.st_nlink == 0);
        CHECK(lseek(temporary, 0, SEEK_CUR) == 9);
        if (!last) return;
        CHECK(linkat(AT_FDCWD, ("/proc/self/fd/" + std::to_string(temporary)).c_str(), AT_FDCWD, "linked",
                     AT_SYMLINK_FOLLOW) == 0 ||
              errno == ENOENT);
    };
}

test::Check renamed() {
    const int fd = made("before", O_RDWR | O_TRUNC, "renamed");
    CHECK(rename("before", "after") == 0);
    return [=](bool) { CHECK(contents(fd) == "renamed" && link_of(fd).ends_with("/after")); };
}

test::Check folders() {
    mkdir("folder", 0755);
    for (int i = 0; i < 20; ++i) close(made(("folder/f" + std::to_string(i)).c_str(), O_WRONLY, nullptr));
    const int folder = open("folder", O_RDONLY | O_DIRECTORY);
    CHECK(folder >= 0);
    return [=](bool) {
        // The directory is listed from its beginning, whatever its position was.
        CHECK(lseek(folder, 0, SEEK_SET) == 0);
        DIR* listing = fdopendir(dup(folder));
        CHECK(listing != nullptr);
        int names = 0;
        while (const dirent* entry = readdir(listing)) names += entry->d_name[0] == 'f';
        closedir(listing);
        CHECK(names == 20);
    };
}

test::Check paths_only() {
    const int path = open("plain", O_PATH), path_folder = open("folder", O_PATH | O_DIRECTORY);
    CHECK(path >= 0 && path_folder >= 0);
    return [=](bool) {
        const int inside = openat(path_folder, "f7", O_RDONLY);
        CHECK(inside >= 0);
        close(inside);
        char byte = 1;
        CHECK(read(path, &byte, 1) == -1 && errno == EBADF && (fcntl(path, F_GETFL) & O_PATH) != 0);
        struct stat of_path {
        }, of_name{};
        CHECK(fstat(path, &of_path) == 0 && stat("plain", &of_name) == 0);
        CHECK(of_path.st_ino == of_name.st_ino);
    };
}

test::Check devices() {
    const int null = open("/dev/null", O_RDWR), zero = open("/dev/zero", O_RDONLY),
              full = open("/dev/full", O_WRONLY), random = open("/dev/urandom", O_RDONLY);
    CHECK(null >= 0 && zero >= 0 && full >= 0 && random >= 0);
    return [=](bool) {
        char byte = 1;
        CHECK(write(null, "x", 1) == 1 && read(null, &byte, 1) == 0);
        CHECK(read(zero, &byte, 1) == 1 && byte == 0);
        CHECK(write(full, "x", 1) == -1 && errno == ENOSPC);
        CHECK(read(random, &byte, 1) == 1);
    };
}

test::Check files_of_proc() {
    const int status = open("/proc/self/status", O_RDONLY), uptime = open("/proc/uptime", O_RDONLY);
    CHECK(status >= 0 && uptime >= 0);
    return [=](bool) {
        char text[4096] = "";
        CHECK(pread(status, text, sizeof text - 1, 0) > 0);
        CHECK(std::strstr(text, "files") != nullptr);  // still the status of this very process
        // The ids in the text are the kernel's, whatever the program believes.
        CHECK(pread(uptime, text, sizeof text - 1, 0) > 0);
    };
}

test::Check buffered_stream() {
    FILE* stream = std::fopen("stream", "w+");
    CHECK(stream != nullptr && std::fprintf(stream, "in the buffer") > 0);  // not yet written
    return [=](bool last) {
        if (!last) return;
        CHECK(std::fclose(stream) == 0);
        const int fd = open("stream", O_RDONLY);
        CHECK(contents(fd) == "in the buffer");
    };
}

// A file that was open for writing beyond its end.
test::Check holes() {
    const int sparse = made("sparse", O_RDWR | O_TRUNC, nullptr);
    CHECK(ftruncate(sparse, 1 << 20) == 0 && lseek(sparse, 1 << 19, SEEK_SET) == 1 << 19);
    return [=](bool) {
        struct stat status {};
        CHECK(fstat(sparse, &status) == 0 && status.st_size == 1 << 20 &&
              lseek(sparse, 0, SEEK_CUR) == 1 << 19);
    };
}

// It is what it would have been: nothing of ours is left open. Asked for before the last round closes files.
test::Check lowest_free_number() {
    return [first_free = -1](bool) mutable {
        const int free_one = dup(1);
        CHECK(free_one >= 0);
        if (first_free < 0) first_free = free_one;
        CHECK(free_one == first_free);
        close(free_one);
    };
}
}  // namespace

int main() {
    test::serve({{"the lowest free number", lowest_free_number},
                 {"offsets and shared descriptions", offsets_and_descriptions},
                 {"flags", flags},
                 {"forbidden by its mode", forbidden_by_its_mode},
                 {"append", append},
                 {"unlinked with contents", unlinked},
                 {"O_TMPFILE", never_linked},
                 {"renamed", renamed},
                 {"a folder", folders},
                 {"O_PATH", paths_only},
                 {"devices", devices},
                 {"files of /proc", files_of_proc},
                 {"a stream with something in its buffer", buffered_stream},
                 {"a file with holes", holes}});
}
