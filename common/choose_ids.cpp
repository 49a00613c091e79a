#include "common/choose_ids.h"

#include <linux/sched.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

namespace cairn {

Result<> can_choose_ids() {
    // A number that nobody has: that of a child which has just been reaped.
    const pid_t wanted = ::fork();
    if (wanted == 0) ::_exit(0);
    if (wanted < 0 || ::waitpid(wanted, nullptr, 0) != wanted) return fail_errno("fork");
    clone_args args{};
    args.exit_signal = SIGCHLD;
    args.set_tid = reinterpret_cast<__u64>(&wanted);
    args.set_tid_size = 1;
    const long pid = ::syscall(SYS_clone3, &args, sizeof args);
    if (pid == 0) ::_exit(0);
    // Somebody may have been given it meanwhile: then it could have been chosen.
    if (pid < 0 && errno != EEXIST) return fail_errno("clone3 (set_tid)");
    if (pid > 0) ::waitpid(static_cast<pid_t>(pid), nullptr, 0);
    return {};
}

}  // namespace cairn
