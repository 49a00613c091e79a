// Paths under /proc that name somebody by his virtual id.
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdarg>
#include <cstring>

#include "hijack/next.h"
#include "hijack/proc_path.h"

using namespace cairn::hijack;

extern "C" {
int __open(const char*, int, ...);
int __open64(const char*, int, ...);
int __open_2(const char*, int);
int __open64_2(const char*, int);
int __openat_2(int, const char*, int);
int __openat64_2(int, const char*, int);
ssize_t __readlink_chk(const char*, char*, std::size_t, std::size_t) noexcept;
ssize_t __readlinkat_chk(int, const char*, char*, std::size_t, std::size_t) noexcept;
char* __realpath_chk(const char*, char*, std::size_t) noexcept;
int __xstat(int, const char*, struct stat*) noexcept;
int __xstat64(int, const char*, struct stat64*) noexcept;
int __lxstat(int, const char*, struct stat*) noexcept;
int __lxstat64(int, const char*, struct stat64*) noexcept;
int __fxstatat(int, int, const char*, struct stat*, int) noexcept;
int __fxstatat64(int, int, const char*, struct stat64*, int) noexcept;
}

// The mode of open's variadic forms is read whether given or not: it is used only with O_CREAT and O_TMPFILE.
#define CAIRN_MODE(last)                      \
    va_list list;                             \
    va_start(list, last);                     \
    const mode_t mode = va_arg(list, mode_t); \
    va_end(list)

CAIRN_EXPORT int open(const char* path, int flags, ...) {
    CAIRN_MODE(flags);
    return with_real_path(path, [=](const char* real) { return next<"open">(&::open)(real, flags, mode); });
}

CAIRN_EXPORT int __open(const char* path, int flags, ...) {
    CAIRN_MODE(flags);
    return open(path, flags, mode);
}

CAIRN_EXPORT int open64(const char* path, int flags, ...) {
    CAIRN_MODE(flags);
    return with_real_path(path,
                          [=](const char* real) { return next<"open64">(&::open64)(real, flags, mode); });
}

CAIRN_EXPORT int __open64(const char* path, int flags, ...) {
    CAIRN_MODE(flags);
    return open64(path, flags, mode);
}

CAIRN_EXPORT int __open_2(const char* path, int flags) {
    return with_real_path(path, [=](const char* real) { return next<"__open_2">(&::__open_2)(real, flags); });
}

CAIRN_EXPORT int __open64_2(const char* path, int flags) {
    return with_real_path(path,
                          [=](const char* real) { return next<"__open64_2">(&::__open64_2)(real, flags); });
}

CAIRN_EXPORT int openat(int directory, const char* path, int flags, ...) {
    CAIRN_MODE(flags);
    return with_real_path(
        path, [=](const char* real) { return next<"openat">(&::openat)(directory, real, flags, mode); });
}

CAIRN_EXPORT int openat64(int directory, const char* path, int flags, ...) {
    CAIRN_MODE(flags);
    return with_real_path(
        path, [=](const char* real) { return next<"openat64">(&::openat64)(directory, real, flags, mode); });
}

CAIRN_EXPORT int __openat_2(int directory, const char* path, int flags) {
    return with_real_path(
        path, [=](const char* real) { return next<"__openat_2">(&::__openat_2)(directory, real, flags); });
}

CAIRN_EXPORT int __openat64_2(int directory, const char* path, int flags) {
    return with_real_path(path, [=](const char* real) {
        return next<"__openat64_2">(&::__openat64_2)(directory, real, flags);
    });
}

CAIRN_EXPORT FILE* fopen(const char* path, const char* mode) {
    return with_real_path(path, [=](const char* real) { return next<"fopen">(&::fopen)(real, mode); });
}

CAIRN_EXPORT FILE* fopen64(const char* path, const char* mode) {
    return with_real_path(path, [=](const char* real) { return next<"fopen64">(&::fopen64)(real, mode); });
}

CAIRN_EXPORT FILE* freopen(const char* path, const char* mode, FILE* file) {
    return with_real_path(path,
                          [=](const char* real) { return next<"freopen">(&::freopen)(real, mode, file); });
}

CAIRN_EXPORT FILE* freopen64(const char* path, const char* mode, FILE* file) {
    return with_real_path(
        path, [=](const char* real) { return next<"freopen64">(&::freopen64)(real, mode, file); });
}

CAIRN_EXPORT DIR* opendir(const char* path) {
    return with_real_path(path, [=](const char* real) { return next<"opendir">(&::opendir)(real); });
}

CAIRN_EXPORT int stat(const char* path, struct stat* status) noexcept {
    return with_real_path(path, [=](const char* real) {
        return next<"stat", int(const char*, struct stat*) noexcept>(nullptr)(real, status);
    });
}

CAIRN_EXPORT int stat64(const char* path, struct stat64* status) noexcept {
    return with_real_path(path, [=](const char* real) {
        return next<"stat64", int(const char*, struct stat64*) noexcept>(nullptr)(real, status);
    });
}

CAIRN_EXPORT int lstat(const char* path, struct stat* status) noexcept {
    return with_real_path(path, [=](const char* real) { return next<"lstat">(&::lstat)(real, status); });
}

CAIRN_EXPORT int lstat64(const char* path, struct stat64* status) noexcept {
    return with_real_path(path, [=](const char* real) { return next<"lstat64">(&::lstat64)(real, status); });
}

CAIRN_EXPORT int fstatat(int directory, const char* path, struct stat* status, int flags) noexcept {
    return with_real_path(
        path, [=](const char* real) { return next<"fstatat">(&::fstatat)(directory, real, status, flags); });
}

CAIRN_EXPORT int fstatat64(int directory, const char* path, struct stat64* status, int flags) noexcept {
    return with_real_path(path, [=](const char* real) {
        return next<"fstatat64">(&::fstatat64)(directory, real, status, flags);
    });
}

CAIRN_EXPORT int __xstat(int version, const char* path, struct stat* status) noexcept {
    return with_real_path(
        path, [=](const char* real) { return next<"__xstat">(&::__xstat)(version, real, status); });
}

CAIRN_EXPORT int __xstat64(int version, const char* path, struct stat64* status) noexcept {
    return with_real_path(
        path, [=](const char* real) { return next<"__xstat64">(&::__xstat64)(version, real, status); });
}

CAIRN_EXPORT int __lxstat(int version, const char* path, struct stat* status) noexcept {
    return with_real_path(
        path, [=](const char* real) { return next<"__lxstat">(&::__lxstat)(version, real, status); });
}

CAIRN_EXPORT int __lxstat64(int version, const char* path, struct stat64* status) noexcept {
    return with_real_path(
        path, [=](const char* real) { return next<"__lxstat64">(&::__lxstat64)(version, real, status); });
}

CAIRN_EXPORT int __fxstatat(int version, int directory, const char* path, struct stat* status,
                            int flags) noexcept {
    return with_real_path(path, [=](const char* real) {
        return next<"__fxstatat">(&::__fxstatat)(version, directory, real, status, flags);
    });
}

CAIRN_EXPORT int __fxstatat64(int version, int directory, const char* path, struct stat64* status,
                              int flags) noexcept {
    return with_real_path(path, [=](const char* real) {
        return next<"__fxstatat64">(&::__fxstatat64)(version, directory, real, status, flags);
    });
}

CAIRN_EXPORT int statx(int directory, const char* path, int flags, unsigned int mask,
                       struct statx* status) noexcept {
    return with_real_path(path, [=](const char* real) {
        return next<"statx", int(int, const char*, int, unsigned int, struct statx*) noexcept>(nullptr)(
            directory, real, flags, mask, status);
    });
}

CAIRN_EXPORT int access(const char* path, int mode) noexcept {
    return with_real_path(path, [=](const char* real) { return next<"access">(&::access)(real, mode); });
}

CAIRN_EXPORT int faccessat(int directory, const char* path, int mode, int flags) noexcept {
    return with_real_path(path, [=](const char* real) {
        return next<"faccessat">(&::faccessat)(directory, real, mode, flags);
    });
}

CAIRN_EXPORT int eaccess(const char* path, int mode) noexcept {
    return with_real_path(path, [=](const char* real) { return next<"eaccess">(&::eaccess)(real, mode); });
}

CAIRN_EXPORT int euidaccess(const char* path, int mode) noexcept {
    return eaccess(path, mode);
}

CAIRN_EXPORT int chdir(const char* path) noexcept {
    return with_real_path(path, [=](const char* real) { return next<"chdir">(&::chdir)(real); });
}

CAIRN_EXPORT ssize_t readlink(const char* path, char* target, std::size_t size) noexcept {
    const ssize_t length = with_real_path(
        path, [=](const char* real) { return next<"readlink">(&::readlink)(real, target, size); });
    return virtual_link(path, target, length, size);
}

CAIRN_EXPORT ssize_t __readlink_chk(const char* path, char* target, std::size_t size,
                                    std::size_t room) noexcept {
    const ssize_t length = with_real_path(path, [=](const char* real) {
        return next<"__readlink_chk">(&::__readlink_chk)(real, target, size, room);
    });
    return virtual_link(path, target, length, size);
}

CAIRN_EXPORT ssize_t readlinkat(int directory, const char* path, char* target, std::size_t size) noexcept {
    const ssize_t length = with_real_path(path, [=](const char* real) {
        return next<"readlinkat">(&::readlinkat)(directory, real, target, size);
    });
    return virtual_link(path, target, length, size);
}

CAIRN_EXPORT ssize_t __readlinkat_chk(int directory, const char* path, char* target, std::size_t size,
                                      std::size_t room) noexcept {
    const ssize_t length = with_real_path(path, [=](const char* real) {
        return next<"__readlinkat_chk">(&::__readlinkat_chk)(directory, real, target, size, room);
    });
    return virtual_link(path, target, length, size);
}

CAIRN_EXPORT char* realpath(const char* path, char* resolved) noexcept {
    return with_real_path(path,
                          [=](const char* real) { return next<"realpath">(&::realpath)(real, resolved); });
}

CAIRN_EXPORT char* __realpath_chk(const char* path, char* resolved, std::size_t room) noexcept {
    return with_real_path(path, [=](const char* real) {
        return next<"__realpath_chk">(&::__realpath_chk)(real, resolved, room);
    });
}

CAIRN_EXPORT char* canonicalize_file_name(const char* path) noexcept {
    return with_real_path(path, [=](const char* real) {
        return next<"canonicalize_file_name">(&::canonicalize_file_name)(real);
    });
}
