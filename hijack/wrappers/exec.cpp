// The exec family. libc's own members call its execve past us, so each is made anew on top of guarded_exec.
#include "hijack/exec.h"

#include <alloca.h>
#include <fcntl.h>
#include <paths.h>

#include <cstdarg>

#include "hijack/next.h"
#include "hijack/proc_path.h"

using namespace cairn::hijack;

namespace {

int exec_path(const char* path, char* const* arguments, char* const* environment) {
    return with_real_path(path, [=](const char* real) {
        return guarded_exec(AT_FDCWD, real, 0, environment, [=](char* const* changed) {
            return next<"execve">(&::execve)(real, arguments, changed);
        });
    });
}

// A file that is no program is a script for /bin/sh (execvp(3)).
[[gnu::noinline]] int exec_by_shell(const char* path, char* const* arguments, char* const* environment) {
    std::size_t count = 0;
    while (arguments[count] != nullptr) ++count;
    auto** shell = static_cast<char**>(::alloca((count + 3) * sizeof(char*)));
    static char name[] = _PATH_BSHELL;
    shell[0] = name;
    shell[1] = const_cast<char*>(path);
    std::size_t n = 2;
    for (std::size_t i = 1; i < count; ++i) shell[n++] = arguments[i];
    shell[n] = nullptr;
    return exec_path(_PATH_BSHELL, shell, environment);
}

int exec_search(const char* file, char* const* arguments, char* const* environment) {
    return search_path(file, variable(environ, "PATH"), [=](const char* path) {
        const int result = exec_path(path, arguments, environment);
        return errno == ENOEXEC ? exec_by_shell(path, arguments, environment) : result;
    });
}

// How many arguments there are before the null of execl's list, the first one included.
std::size_t count_arguments(const char* first, va_list list) {
    std::size_t count = 0;
    for (const char* argument = first; argument != nullptr; argument = va_arg(list, const char*)) ++count;
    return count;
}

void copy_arguments(char** to, const char* first, va_list list) {
    for (const char* argument = first; argument != nullptr; argument = va_arg(list, const char*))
        *to++ = const_cast<char*>(argument);
    *to = nullptr;
}

}  // namespace

// Whoever changes his root may leave the session's files behind; his next exec looks.
CAIRN_EXPORT int chroot(const char* path) noexcept {
    const int result = next<"chroot">(&::chroot)(path);
    if (result == 0) resident.root_changed.store(true, std::memory_order_relaxed);
    return result;
}

CAIRN_EXPORT int execve(const char* path, char* const arguments[], char* const environment[]) noexcept {
    return exec_path(path, arguments, environment);
}

CAIRN_EXPORT int execv(const char* path, char* const arguments[]) noexcept {
    return exec_path(path, arguments, environ);
}

CAIRN_EXPORT int execvp(const char* file, char* const arguments[]) noexcept {
    return exec_search(file, arguments, environ);
}

CAIRN_EXPORT int execvpe(const char* file, char* const arguments[], char* const environment[]) noexcept {
    return exec_search(file, arguments, environment);
}

CAIRN_EXPORT int execveat(int directory, const char* path, char* const arguments[], char* const environment[],
                          int flags) noexcept {
    return guarded_exec(directory, path, flags, environment, [=](char* const* changed) {
        return next<"execveat">(&::execveat)(directory, path, arguments, changed, flags);
    });
}

CAIRN_EXPORT int fexecve(int fd, char* const arguments[], char* const environment[]) noexcept {
    return guarded_exec(fd, "", AT_EMPTY_PATH, environment, [=](char* const* changed) {
        return next<"fexecve">(&::fexecve)(fd, arguments, changed);
    });
}

// A macro, because only the function that has the list can walk it, and only its own stack can hold the
// array until the exec: a child of vfork may not allocate.
#define LISTED_ARGUMENTS(arguments, first)                                                                  \
    va_list listed;                                                                                         \
    va_start(listed, first);                                                                                \
    auto** arguments = static_cast<char**>(::alloca((count_arguments(first, listed) + 1) * sizeof(char*))); \
    va_end(listed);                                                                                         \
    va_start(listed, first);                                                                                \
    copy_arguments(arguments, first, listed);                                                               \
    va_end(listed)

CAIRN_EXPORT int execl(const char* path, const char* argument, ...) noexcept {
    LISTED_ARGUMENTS(arguments, argument);
    return exec_path(path, arguments, environ);
}

CAIRN_EXPORT int execlp(const char* file, const char* argument, ...) noexcept {
    LISTED_ARGUMENTS(arguments, argument);
    return exec_search(file, arguments, environ);
}

CAIRN_EXPORT int execle(const char* path, const char* argument, ...) noexcept {
    LISTED_ARGUMENTS(arguments, argument);
    va_list list;
    va_start(list, argument);  // the environment follows the list's null
    for (const char* skipped = argument; skipped != nullptr;) skipped = va_arg(list, const char*);
    auto* const* environment = va_arg(list, char* const*);
    va_end(list);
    return exec_path(path, arguments, environment);
}
