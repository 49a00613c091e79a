#include "mpi/interposer/stand.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>

#include "mpi/debug/confined.h"
#include "mpi/debug/wire.h"
#include "mpi/interposer/another_first.h"
#include "mpi/interposer/breakpoint.h"
#include "mpi/interposer/contents.h"
#include "mpi/interposer/grown_record.h"
#include "mpi/interposer/image.h"
#include "mpi/interposer/otherwise.h"
#include "mpi/interposer/registers.h"
#include "mpi/interposer/session.h"

namespace cairn::mpi {

bool standing_alone = false;

// For gdb's watchpoints (mpi/debug/gdb.cpp): behind so many events of the trace.
extern "C" {
__attribute__((visibility("default"))) volatile std::uint64_t cairn_mpi_position = 0;
// For breakpoints of a gdb that runs a copy (mpi/debug/gdb_front/script.h).
__attribute__((visibility("default"), noinline)) void cairn_mpi_stands() {
    asm volatile("");
}
}

namespace {

using debug::Ask;
using debug::Command;
using debug::Report;
using debug::Says;
using debug::Why;

int debugger = -1;  // the socket
pid_t debugger_pid = 0;
Command order;  // what to do now
// Of the last checkpoint, or the command.
std::uint64_t since_ns = 0;
std::uint64_t waited_before_ns = 0;
std::uint64_t due_ns = 0;  // the next checkpoint isn't before
char unsaid[1024];
std::size_t unsaid_bytes = 0;
bool stands_within = false;

std::uint64_t now_on(clockid_t clock) {
    timespec time{};
    ::clock_gettime(clock, &time);
    return static_cast<std::uint64_t>(time.tv_sec) * 1'000'000'000 + static_cast<std::uint64_t>(time.tv_nsec);
}

// How long this thread has waited for a processor (Documentation/scheduler/sched-stats.rst); 0 where the
// kernel doesn't say. Which errno there is belongs to the program's memory.
std::uint64_t waited_ns() {
    const int error = errno;
    char text[80] = {};
    const int file = ::open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC);
    const ssize_t size = file < 0 ? -1 : ::read(file, text, sizeof text - 1);
    if (file >= 0) ::close(file);
    errno = error;
    char* waited = size < 0 ? nullptr : std::strchr(text, ' ');
    return waited == nullptr ? 0 : std::strtoull(waited, nullptr, 10);
}

// By the time in which it could run: on a machine where it hardly ever may, copies as frequent as the clock
// wants them would cost more than it gets done in between.
bool is_due() {
    const std::uint64_t now = now_on(CLOCK_MONOTONIC);
    if (now < due_ns) return false;
    const std::uint64_t active = now - since_ns - (waited_ns() - waited_before_ns);
    if (active >= order.interval_ns) return true;
    due_ns = now + order.interval_ns - active;
    return false;
}

// The MPI's own threads are in the first process only, and nothing needs them.
std::uint32_t other_threads() {
    struct stat status {};
    if (::stat("/proc/self/task", &status) != 0 || status.st_nlink < 3) return 0;
    return static_cast<std::uint32_t>(status.st_nlink - 3);
}

// Without a debugger nobody needs this process.
void report(const Report& report, const char* text, std::size_t bytes, int descriptor) {
    iovec parts[2] = {{const_cast<Report*>(&report), sizeof report}, {const_cast<char*>(text), bytes}};
    msghdr message{};
    message.msg_iov = parts;
    message.msg_iovlen = 2;
    alignas(cmsghdr) char room[CMSG_SPACE(sizeof descriptor)] = {};
    if (descriptor >= 0) {
        message.msg_control = room;
        message.msg_controllen = sizeof room;
        cmsghdr* control = CMSG_FIRSTHDR(&message);
        control->cmsg_level = SOL_SOCKET;
        control->cmsg_type = SCM_RIGHTS;
        control->cmsg_len = CMSG_LEN(sizeof descriptor);
        std::memcpy(CMSG_DATA(control), &descriptor, sizeof descriptor);
    }
    while (::sendmsg(debugger, &message, MSG_NOSIGNAL) < 0)
        if (errno != EINTR) ::_exit(0);
}

void report_standing(Why why) {
    const Session& s = *session;
    Report now;
    now.says = Says::stands;
    now.why = why;
    now.pid = ::getpid();
    now.within = stands_within ? 1 : 0;
    now.position = s.tracer->events();
    now.event = s.events;
    now.frame = reinterpret_cast<std::uintptr_t>(s.last.frame);
    now.text_bytes = static_cast<std::uint32_t>(unsaid_bytes);
    now.other_threads = other_threads();
    report(now, unsaid, unsaid_bytes, -1);
    unsaid_bytes = 0;
}

// Not by fork(): what it calls before and behind it is meant for programs that go on in the child by
// themselves, and the child would be ours to wait for. Its parent is the debugger, as this process's is.
pid_t fork_sibling() {
    int* tid = nullptr;  // where libc keeps the thread's id
    if (::prctl(PR_GET_TID_ADDRESS, &tid, 0, 0, 0) != 0) tid = nullptr;
    const unsigned long flags =
        CLONE_PARENT | SIGCHLD | (tid != nullptr ? CLONE_CHILD_SETTID | CLONE_CHILD_CLEARTID : 0UL);
    return static_cast<pid_t>(::syscall(SYS_clone, flags, nullptr, nullptr, tid, nullptr));
}

void follow_debugger() {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    // Its gdb may look at it, where only parents may do so by default.
    ::prctl(PR_SET_PTRACER, static_cast<unsigned long>(debugger_pid), 0, 0, 0);
    if (own_parent() != debugger_pid) ::_exit(0);
}

// True in the copy, which has nothing to say yet.
bool fork_copy(Says says, pid_t (*fork)() = fork_sibling) {
    int both[2] = {-1, -1};
    if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, both) != 0) both[0] = both[1] = -1;
    // Not by the clock on the wall: who waits for a processor just then, once, would be taken for a process
    // that is hard to copy, and have no checkpoints from there on.
    const std::uint64_t before = now_on(CLOCK_THREAD_CPUTIME_ID);
    const pid_t copy = both[0] < 0 ? -1 : fork();
    if (copy == 0) {
        // At the same number, which no program uses by chance.
        ::dup3(both[1], debugger, O_CLOEXEC);
        ::close(both[0]);
        ::close(both[1]);
        follow_debugger();
        reopen_files();
        return true;
    }
    Report forked;
    forked.says = says;
    forked.pid = copy;
    forked.position = session->tracer->events();
    forked.event = session->events;
    forked.within = stands_within ? 1 : 0;
    forked.fork_ns = now_on(CLOCK_THREAD_CPUTIME_ID) - before;
    report(forked, nullptr, 0, both[0]);
    if (both[0] >= 0) ::close(both[0]);
    if (both[1] >= 0) ::close(both[1]);
    return false;
}

void send_text(Says says, std::string text) {
    text.resize(std::min<std::size_t>(text.size(), debug::most_text));
    Report now;
    now.says = says;
    now.text_bytes = static_cast<std::uint32_t>(text.size());
    report(now, text.data(), text.size(), -1);
}

// Closes it.
void send_file(Says says, int file) {
    Report now;
    now.says = says;
    report(now, nullptr, 0, file);
    if (file >= 0) ::close(file);
}

// `file`: what came along, if anything did.
ssize_t receive_command(Command& command, int& file) {
    iovec part{&command, sizeof command};
    alignas(cmsghdr) char room[CMSG_SPACE(sizeof file)] = {};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = room;
    message.msg_controllen = sizeof room;
    const ssize_t size = ::recvmsg(debugger, &message, MSG_CMSG_CLOEXEC);
    if (const cmsghdr* control = size > 0 ? CMSG_FIRSTHDR(&message) : nullptr; control != nullptr)
        std::memcpy(&file, CMSG_DATA(control), sizeof file);
    return size;
}

// Returns behind a restart, under another debugger.
void come_back_in_image(const std::uint64_t (&name)[2]) {
    debugger_pid = sleep_in_image(debugger, debugger_pid, name);
    follow_debugger();
    // The kernel forgets it with the process that was saved.
    if (const char* below = std::getenv(debug::confined_variable);
        below != nullptr && !debug::confine(below)) {
        say("it can't be kept from writing to files");
        ::_exit(static_cast<int>(ExitCode::failed));
    }
    if (const auto taken_up = take_up_grown_record(); !taken_up) {
        say(taken_up.error().what);
        ::_exit(static_cast<int>(taken_up.error().code));
    }
}

// Until it is told to run.
void obey(Why why) {
    for (;;) {
        Command command;
        int file = -1;
        const ssize_t size = receive_command(command, file);
        if (size < 0 && errno == EINTR) continue;
        if (size != sizeof command) ::_exit(0);
        if (command.ask == Ask::fork) {
            if (fork_copy(Says::forked)) report_standing(why);
        } else if (command.ask == Ask::image) {
            if (!fork_copy(Says::forked, fork_member)) continue;
            come_back_in_image(command.name);
            report_standing(why);
        } else if (command.ask == Ask::keep) {
            keep_heard();
        } else if (command.ask == Ask::message) {
            send_file(Says::message, heard_in_file());
        } else if (command.ask == Ask::otherwise) {
            deliver_otherwise(file, command.position, command.last);
            ::close(file);
        } else if (command.ask == Ask::note) {
            note_completions(static_cast<std::uint32_t>(command.last));
        } else if (command.ask == Ask::noted) {
            send_file(Says::message, noted_completions());
        } else if (command.ask == Ask::offered) {
            send_text(Says::offered, offered_lines());
        } else if (command.ask == Ask::first) {
            complete_first(file, command.position, static_cast<std::uint32_t>(command.last));
            ::close(file);
        } else if (command.ask == Ask::stack) {
            send_text(Says::stack, brought_lines() + stack_of_program());
        } else {
            order = command;
            if (command.interval_ns != 0) {
                since_ns = now_on(CLOCK_MONOTONIC) - command.elapsed_ns;
                waited_before_ns = waited_ns();
                due_ns = since_ns + command.interval_ns;
            }
            return;
        }
    }
}

void stand(Why why) {
    report_standing(why);
    cairn_mpi_stands();
    obey(why);
}

[[noreturn]] void stand_for_good(Why why) {
    for (;;) stand(why);
}

// What is done here leaves its traces on the stack, below the program's frames; later calls of the program's
// may have room there that they never write to, and wouldn't be the same as in a straight run. So it is done
// far below, and with the registers put back that may come to lie there later.
__attribute__((noinline)) void far_below(void (*what)()) {
    constexpr std::size_t far = (128U << 10) + kept_registers_room;
    constexpr std::size_t bits = 64 * 8;
    auto* room = static_cast<char*>(__builtin_alloca_with_align(far, bits));
    static const bool vectors = has_xsave();
    if (vectors) keep_registers(room);
    // Which function is called isn't known to the compiler, so that its variables aren't in this frame.
    asm volatile("" : "+r"(what) : "r"(room) : "memory");
    what();
    if (vectors) put_registers_back(room);
    empty_registers();
}

bool is_there() {
    return session->tracer->events() >= order.position && order.within == 0;
}

}  // namespace

void start_standing() {
    const char* number = std::getenv(debug::socket_variable);
    if (number == nullptr || session->job != Job::replay || !session->alone) return;
    constexpr int out_of_the_way = 700;
    const int given = std::atoi(number);
    debugger = ::fcntl(given, F_DUPFD_CLOEXEC, out_of_the_way);
    if (debugger < 0) debugger = ::fcntl(given, F_DUPFD_CLOEXEC, 3);
    ::close(given);
    ::unsetenv(debug::socket_variable);
    debugger_pid = ::getppid();
    follow_debugger();
    // What is printed is to be seen when it is printed, although it goes into a pipe.
    std::setvbuf(stdout, nullptr, _IOLBF, BUFSIZ);
    // What finds places is loaded now, and so is in every copy.
    static_cast<void>(stack_of_program());
    standing_alone = true;
    far_below([] {
        while (is_there()) stand(Why::there);
    });
}

void stand_behind() {
    far_below([] {
        const Session& s = *session;
        stands_within = false;
        cairn_mpi_position = s.tracer->events();
        while (is_there()) stand(Why::there);
        if (order.interval_ns == 0) return;
        const bool many = order.every != 0 && s.events - order.last >= order.every;
        if ((!many && !is_due()) || other_threads() != 0) return;
        if (fork_copy(Says::checkpoint))
            stand(Why::there);
        else
            obey(Why::there);
        while (is_there()) stand(Why::there);
    });
}

void stand_within_call() {
    far_below([] {
        stands_within = true;
        while (order.within != 0 && session->tracer->events() >= order.position) stand(Why::there);
    });
}

void stand_at_end() {
    stands_within = false;
    stand_for_good(Why::end);
}

void stand_at_cut() {
    stands_within = true;
    tell_debugger(what_is_waited_for());
    stand_for_good(Why::cut);
}

void stand_departed() {
    stands_within = true;
    stand_for_good(Why::departed);
}

void tell_debugger(const std::string& text) {
    const std::size_t bytes = std::min(text.size(), sizeof unsaid - unsaid_bytes);
    std::memcpy(unsaid + unsaid_bytes, text.data(), bytes);
    unsaid_bytes += bytes;
}

}  // namespace cairn::mpi
