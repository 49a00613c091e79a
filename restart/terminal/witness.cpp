#include "restart/terminal/witness.h"

#include <fcntl.h>
#include <linux/sched.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>

#include "common/fd.h"
#include "common/proc.h"

namespace cairn::restart {
namespace {

[[noreturn]] void stand_by(pid_t tool) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    if (::getppid() != tool) ::_exit(0);
    ::prctl(PR_SET_NAME, "cairn-witness", 0, 0, 0);
    // Nobody's pipe or terminal may stay open because of us.
    ::syscall(SYS_close_range, 0U, ~0U, 0U);
    for (;;) ::pause();
}

// Without an exit signal a child is none for wait calls that don't ask for such (__WALL): whoever waits until
// the last of his children has gone doesn't wait for this one.
pid_t start() {
    const pid_t tool = ::getpid();
    std::array<int, 2> ends{-1, -1};
    (void)!::pipe2(ends.data(), O_CLOEXEC);
    Fd told(ends[0]), tells(ends[1]);
    const auto pid = static_cast<pid_t>(::syscall(SYS_clone, 0UL, nullptr, nullptr, nullptr, 0UL));
    if (pid == 0) stand_by(tool);
    // On a busy machine it would still have the programs' descriptors when they go on, and keep an end of
    // file from them. With the others it lets go of this pipe; where none could be had there is no waiting.
    tells.reset();
    char nothing = 0;
    while (told && ::read(told.get(), &nothing, 1) < 0 && errno == EINTR) {
    }
    return pid;
}

void end(pid_t pid) {
    if (pid <= 0) return;
    ::kill(pid, SIGKILL);
    while (::waitpid(pid, nullptr, __WALL) < 0 && errno == EINTR) {
    }
}

}  // namespace

Witness::Witness() : pid_(start()) {}

Witness::~Witness() {
    end(pid_);
}

bool Witness::has_got(int number) {
    if (pid_ <= 0) return false;
    // A signal to a group is sent to one member after the other while the kernel's list of tasks is locked
    // for reading (kill_something_info, kernel/signal.c; isig, drivers/tty/n_tty.c); setpgid(2) locks it for
    // writing, whatever it is asked: behind it everybody has got his.
    (void)::setpgid(0, ::getpgrp());
    auto status = proc::status(pid_, pid_);
    if (!status) return false;
    const auto bit = std::uint64_t{1} << (number - 1);
    if ((proc::hexadecimal((*status)["ShdPnd"]) & bit) == 0) return false;
    // What it has got it keeps. The next one begins before this one ends: a signal in between reaches both.
    const pid_t old = pid_;
    pid_ = start();
    end(old);
    return true;
}

}  // namespace cairn::restart
