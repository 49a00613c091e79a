// system, popen and pclose, made of our posix_spawn and waitpid.
//
// libc's own remember which id the child has of the kernel: system in its frame, popen in the stream. With
// virtual ids it has another one after a restart, and what was begun before would end with -1, as if there
// were no child.
#include <fcntl.h>
#include <paths.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>

#include "hijack/next.h"
#include "hijack/resident.h"

using namespace cairn;
using namespace cairn::hijack;

namespace {

bool shells_are_ours() {
    return region() != nullptr && speaks_by_its_own_ids();
}

// 0 or an errno value, as posix_spawn(3). The child runs `command`.
int spawn_shell(const char* command, const posix_spawn_file_actions_t* actions,
                const posix_spawnattr_t* attributes, pid_t& child) {
    char name[] = "sh", option[] = "-c";
    char* const arguments[] = {name, option, const_cast<char*>(command), nullptr};
    return ::posix_spawn(&child, _PATH_BSHELL, actions, attributes, arguments, environ);
}

// -1 and errno where somebody else has waited for it.
int status_of(pid_t child) {
    int status = 0;
    pid_t waited = 0;
    while ((waited = ::waitpid(child, &status, 0)) < 0 && errno == EINTR) {
    }
    return waited == child ? status : -1;
}

// SIGINT and SIGQUIT are ignored as long as a thread is in system(3), as it says: the first one finds what
// they were, and the last one puts it back.
class Interrupts {
  public:
    // What the shell is to have by default, because it wasn't ignored before.
    sigset_t ignore() {
        sigset_t defaults;
        ::sigemptyset(&defaults);
        lock();
        for (auto& each : kept_) {
            struct sigaction ignored = {};
            ignored.sa_handler = SIG_IGN;
            if (users_ == 0) (void)next<"sigaction"> (&::sigaction)(each.signal, &ignored, &each.before);
            if (each.before.sa_handler != SIG_IGN) ::sigaddset(&defaults, each.signal);
        }
        ++users_;
        unlock();
        return defaults;
    }
    void put_back() {
        lock();
        --users_;
        for (const auto& each : kept_)
            if (users_ == 0)
                (void)next<"sigaction"> (&::sigaction)(each.signal, &each.before,
                                                       static_cast<struct sigaction*>(nullptr));
        unlock();
    }

  private:
    struct Kept {
        int signal;
        struct sigaction before;
    };
    void lock() {
        while (locked_.exchange(true, std::memory_order_acquire)) ::sched_yield();
    }
    void unlock() { locked_.store(false, std::memory_order_release); }

    std::atomic<bool> locked_ = false;
    int users_ = 0;
    Kept kept_[2] = {{SIGINT, {}}, {SIGQUIT, {}}};
};
constinit Interrupts interrupts;

int run_by_shell(const char* command) {
    constexpr int no_shell = 127 << 8;  // system(3): as if the shell had ended by _exit(127)
    const sigset_t defaults = interrupts.ignore();
    sigset_t of_children, before;
    ::sigemptyset(&of_children);
    ::sigaddset(&of_children, SIGCHLD);
    ::sigprocmask(SIG_BLOCK, &of_children, &before);  // of this thread: Linux has one for each
    posix_spawnattr_t attributes;
    ::posix_spawnattr_init(&attributes);
    ::posix_spawnattr_setsigdefault(&attributes, &defaults);
    ::posix_spawnattr_setsigmask(&attributes, &before);
    ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK);
    pid_t child = -1;
    const int error = spawn_shell(command, nullptr, &attributes, child);
    ::posix_spawnattr_destroy(&attributes);
    const int status = error == 0 ? status_of(child) : no_shell;
    const int number = error == 0 ? errno : error;
    interrupts.put_back();
    ::sigprocmask(SIG_SETMASK, &before, nullptr);
    errno = number;
    return status;
}

// The streams that popen has given and nobody has closed.
struct Stream {
    std::atomic<FILE*> file;
    std::atomic<int> fd;  // of ours
    std::atomic<pid_t> child;
};
constexpr int most_streams = 256;  // beyond, they are libc's
constinit Stream streams[most_streams] = {};
constinit std::atomic<int> stream_count = 0;

// A place that somebody has taken whose stream isn't there yet.
FILE* no_stream_yet() {
    static char mark;
    return reinterpret_cast<FILE*>(&mark);
}

Stream* take_place() {
    for (auto& each : streams) {
        FILE* nobody = nullptr;
        if (!each.file.compare_exchange_strong(nobody, no_stream_yet())) continue;
        each.fd = -1;
        stream_count.fetch_add(1);
        return &each;
    }
    return nullptr;
}

void give_back(Stream& place) {
    place.file = nullptr;
    stream_count.fetch_sub(1);
}

// Whose stream it is; 0: not one of popen's, or closed already.
pid_t forget(FILE* file) {
    if (stream_count.load() == 0 || file == nullptr) return 0;
    for (auto& each : streams) {
        if (each.file.load() != file) continue;
        const pid_t child = each.child;
        give_back(each);
        return child;
    }
    return 0;
}

// The shell has the other end as its input or output, and none of the streams of earlier popens.
int spawn_at_end(const char* command, int end, int target, pid_t& child) {
    posix_spawn_file_actions_t actions;
    ::posix_spawn_file_actions_init(&actions);
    int error = 0;
    for (const auto& each : streams)
        if (const int fd = each.fd; error == 0 && each.file.load() != nullptr && fd >= 0)
            error = ::posix_spawn_file_actions_addclose(&actions, fd);
    if (error == 0) error = ::posix_spawn_file_actions_adddup2(&actions, end, target);
    if (error == 0) error = spawn_shell(command, &actions, nullptr, child);
    ::posix_spawn_file_actions_destroy(&actions);
    return error;
}

FILE* open_stream(Stream& place, const char* command, bool reads, bool close_on_exec) {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) return nullptr;
    const int ours = ends[reads ? 0 : 1], target = reads ? STDOUT_FILENO : STDIN_FILENO;
    int theirs = ends[reads ? 1 : 0];
    // Where it is that number already nothing would make it stay open at the exec.
    if (theirs == target) {
        const int moved = ::fcntl(theirs, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
        ::close(theirs);
        theirs = moved;
    }
    FILE* const file = theirs < 0 ? nullptr : ::fdopen(ours, reads ? "r" : "w");
    pid_t child = -1;
    const int error = file == nullptr ? errno : spawn_at_end(command, theirs, target, child);
    if (theirs >= 0) ::close(theirs);
    if (error != 0) {
        file != nullptr ? (void)next<"fclose"> (&::fclose)(file) : (void)::close(ours);
        errno = error;
        return nullptr;
    }
    if (!close_on_exec) (void)::fcntl(ours, F_SETFD, 0);
    place.child = child;
    place.fd = ours;
    place.file = file;
    return file;
}

// "r" or "w", and "e" with it.
bool is_mode(const char* mode, bool& reads, bool& close_on_exec) {
    int directions = 0;
    for (close_on_exec = false; *mode != '\0'; ++mode) {
        if (*mode == 'e')
            close_on_exec = true;
        else if (*mode == 'r' || *mode == 'w')
            reads = *mode == 'r', ++directions;
        else
            return false;
    }
    return directions == 1;
}

}  // namespace

// A thread that is cancelled meanwhile goes on until the command has ended: what has to be done then would
// take a library of glibc before 2.34 that not every program loads.
CAIRN_EXPORT int system(const char* command) {
    if (!shells_are_ours()) return next<"system">(&::system)(command);
    int before = PTHREAD_CANCEL_ENABLE;
    ::pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
    const int status = run_by_shell(command == nullptr ? "exit 0" : command);
    ::pthread_setcancelstate(before, nullptr);
    return command == nullptr ? status == 0 : status;
}

CAIRN_EXPORT FILE* popen(const char* command, const char* mode) {
    Stream* const place = shells_are_ours() ? take_place() : nullptr;
    if (place == nullptr) return next<"popen">(&::popen)(command, mode);
    bool reads = false, close_on_exec = false;
    FILE* file = nullptr;
    if (is_mode(mode, reads, close_on_exec))
        file = open_stream(*place, command, reads, close_on_exec);
    else
        errno = EINVAL;
    if (file == nullptr) give_back(*place);
    return file;
}

CAIRN_EXPORT int pclose(FILE* file) {
    const pid_t child = forget(file);
    if (child == 0) return next<"pclose">(&::pclose)(file);
    (void)next<"fclose"> (&::fclose)(file);
    return status_of(child);
}

// libc's does the same with a stream of popen's.
CAIRN_EXPORT int fclose(FILE* file) {
    const pid_t child = forget(file);
    const int result = next<"fclose">(&::fclose)(file);
    return child == 0 ? result : status_of(child);
}
