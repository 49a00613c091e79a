#include "mpi/interposer/image.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstring>
#include <ctime>
#include <initializer_list>

#include "mpi/debug/image_address.h"

namespace cairn::mpi {
namespace {

[[noreturn]] int jump_back(void* place) {
    __builtin_longjmp(static_cast<void**>(place), 1);
}

// True: it is a debugger of the same user, and has said that it is the parent now.
bool taken_over(int connected, int socket, pid_t& debugger) {
    ucred peer{};
    socklen_t size = sizeof peer;
    if (::getsockopt(connected, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0 || peer.uid != ::getuid())
        return false;
    char byte = 0;
    iovec part{&byte, 1};
    int outputs[2];
    alignas(cmsghdr) char room[CMSG_SPACE(sizeof outputs)] = {};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = room;
    message.msg_controllen = sizeof room;
    if (::recvmsg(connected, &message, MSG_CMSG_CLOEXEC) != 1) return false;
    const cmsghdr* control = CMSG_FIRSTHDR(&message);
    if (control == nullptr || control->cmsg_len != CMSG_LEN(sizeof outputs)) return false;
    std::memcpy(outputs, CMSG_DATA(control), sizeof outputs);
    ::dup2(outputs[0], STDOUT_FILENO);
    ::dup2(outputs[1], STDERR_FILENO);
    ::close(outputs[0]);
    ::close(outputs[1]);
    ::dup3(connected, socket, O_CLOEXEC);
    debugger = peer.pid;
    // The restart's tool is still the parent, and its end would be ours.
    ::prctl(PR_SET_PDEATHSIG, 0, 0, 0, 0);
    return ::send(socket, &byte, 1, MSG_NOSIGNAL) == 1 && ::recv(socket, &byte, 1, 0) == 1;
}

}  // namespace

// By the function that libcairn.so has wrapped, in which the child registers. It begins on a stack of its
// own, and goes back from there to where the parent stood, whose stack it has a copy of.
pid_t fork_member() {
    alignas(16) static char stack[64U << 10];
    static void* place[5];
    int* tid = nullptr;  // where libc keeps the thread's id
    if (::prctl(PR_GET_TID_ADDRESS, &tid, 0, 0, 0) != 0) tid = nullptr;
    const int flags =
        CLONE_PARENT | SIGCHLD | (tid != nullptr ? CLONE_CHILD_SETTID | CLONE_CHILD_CLEARTID : 0);
    if (__builtin_setjmp(place) != 0) return 0;
    return ::clone(jump_back, stack + sizeof stack, flags, static_cast<void*>(place), nullptr, nullptr, tid);
}

pid_t own_parent() {
    long answer = SYS_getppid;
    asm volatile("syscall" : "+a"(answer) : : "rcx", "r11", "memory");
    return static_cast<pid_t>(answer);
}

pid_t sleep_in_image(int socket, pid_t parent, const std::uint64_t (&name)[2]) {
    ::prctl(PR_SET_PDEATHSIG, 0, 0, 0, 0);
    ::setsid();  // a terminal is the debugger's
    const int nothing = ::open("/dev/null", O_RDWR | O_CLOEXEC);
    for (const int each : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) ::dup2(nothing, each);
    ::close(nothing);
    sockaddr_un address{};
    const socklen_t size = debug::image_address(address, name[0], name[1]);
    ::close(socket);  // which says that it sleeps
    // It may be saved at any place in here. Behind the restart the debugger waits already; so who has missed
    // both it and the parent several times is nobody's.
    int missed = 0;
    constexpr int most_missed = 10;
    for (;;) {
        const int again = ::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
        if (again >= 0 && ::connect(again, reinterpret_cast<const sockaddr*>(&address), size) == 0) {
            pid_t debugger = 0;
            if (!taken_over(again, socket, debugger)) ::_exit(0);
            ::close(again);
            return debugger;
        }
        if (again >= 0) ::close(again);
        missed = own_parent() == parent ? 0 : missed + 1;
        if (missed > most_missed) ::_exit(0);
        const timespec moment{.tv_sec = 0, .tv_nsec = 10'000'000};
        ::nanosleep(&moment, nullptr);
    }
}

}  // namespace cairn::mpi
