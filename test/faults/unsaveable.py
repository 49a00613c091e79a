"""A thread that can't be stopped (asleep in vfork), a process that another traces, has a seccomp filter or isn't
dumpable: named, the checkpoint is given up, everybody goes on, and the next one works once the cause has gone."""
# ci: exact
import os
import signal
import time
from cairn_test import check, processes
from cairn_test.ticking import Ticking

VFORK = r"""
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>
int main(void) {
    int go;
    printf("READY\n"), fflush(stdout);
    while (scanf("%d", &go) == 1) {
        pid_t child = vfork();  /* the parent is asleep in the kernel until the child has gone */
        if (child == 0) {
            write(1, "ASLEEP\n", 7);
            sleep(go);
            _exit(7);
        }
        int status = 0;
        printf("%s\n", waitpid(child, &status, 0) == child && WEXITSTATUS(status) == 7 ? "WELL" : "WRONG"), fflush(stdout);
    }
    return 3;
}
"""

# All signals are blocked by a raw system call, libc's own included: no obstacle.
BLOCKED = r"""
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>
int main(void) {
    unsigned long all = ~0ul;
    syscall(SYS_rt_sigprocmask, 2, &all, 0, sizeof all);
    printf("READY\n"), fflush(stdout);
    char line[10];
    unsigned long now = 0;
    while (read(0, line, sizeof line) > 0) {
        syscall(SYS_rt_sigprocmask, 2, 0, &now, sizeof now);
        printf("%s\n", now == (all & ~0x40100ul) ? "WELL" : "WRONG"), fflush(stdout);
    }
    return 3;
}
"""

SECCOMP = r"""
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>
int main(void) {
    struct sock_filter code[] = {{BPF_LD | BPF_W | BPF_ABS, 0, 0, 0}, {BPF_JMP | BPF_JEQ | BPF_K, 0, 1, SYS_setsid},
                                 {BPF_RET | BPF_K, 0, 0, SECCOMP_RET_KILL_PROCESS}, {BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW}};
    struct sock_fprog program = {4, code};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program)) return 1;
    printf("READY\n"), fflush(stdout);
    char line[10];
    while (read(0, line, sizeof line) > 0) printf("WELL\n"), fflush(stdout);
    return 3;
}
"""

UNDUMPABLE = r"""
#include <stdio.h>
#include <sys/prctl.h>
#include <unistd.h>
int main(void) {
    if (prctl(PR_SET_DUMPABLE, 0)) return 1;
    printf("READY\n"), fflush(stdout);
    char line[10];
    while (read(0, line, sizeof line) > 0)
        printf("%s\n", prctl(PR_GET_DUMPABLE) == 0 ? "WELL" : "WRONG"), fflush(stdout);
    return 3;
}
"""

TRACER = r"""
import ctypes, sys, time
libc = ctypes.CDLL(None, use_errno=True)
libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
assert libc.ptrace(0x4206, int(sys.argv[1]), None, None) == 0, ctypes.get_errno()  # PTRACE_SEIZE
print("TRACES", flush=True)
time.sleep(1000)
"""


def compiled(t, name, source):
    path = os.path.join(t.folder, name)
    with open(path + ".c", "w") as file:
        file.write(source)
    code, _, errors = t.run(["gcc", "-O1", "-w", "-o", path, path + ".c"])
    check(code == 0, errors)
    return path


def started(t, name, source):
    program = t.launch([compiled(t, name, source)])
    program.expect(r"READY\r?\n")
    return program


def ended(t, program):
    program.send("\x04")
    program.expect_exit(3)
    t.programs.remove(program)


def given_up(t, group, what, code, words, *options):
    before = t.latest()
    began = time.monotonic()
    status, out, err = t.command("checkpoint", *options)
    check(status == code, f"{what}: 'cairn checkpoint' ended with {status}, {code} was expected: {err or out}")
    check(all(word in err for word in words), f"{what}: {words} should be in the message: {err!r}")
    check(t.latest() == before, f"{what}: latest was {before} and is {t.latest()}")
    group.all_tick(what)
    t.say(f"{what}, after {time.monotonic() - began:.1f} s: {err.strip()}")


def test(t):
    group = Ticking(t, children=1)
    group.checkpoint_works("before any fault")

    stuck = started(t, "stuck", VFORK)
    stuck.send("4\n")
    stuck.expect(r"ASLEEP\r?\n")
    given_up(t, group, "asleep in vfork", 6, ["stuck", str(stuck.pid), "vfork"], "--timeout", "1")
    stuck.expect(r"WELL\r?\n")  # nothing was done to either of them
    group.checkpoint_works("when the vfork is over")
    stuck.send("1\n")
    stuck.expect(r"ASLEEP\r?\n")
    group.checkpoint_works("a vfork that is over before the deadline is waited for")
    stuck.expect(r"WELL\r?\n")
    ended(t, stuck)

    blocked = started(t, "blocked", BLOCKED)
    group.checkpoint_works("with all signals blocked in one of them")
    blocked.send("x\n")
    blocked.expect(r"WELL\r?\n")
    ended(t, blocked)

    filtered = started(t, "filtered", SECCOMP)
    if t.mode in ("user", "userns"):
        given_up(t, group, "a seccomp filter", 3, ["filtered", str(filtered.pid), "seccomp"])
    else:
        group.checkpoint_works("with a seccomp filter that is suspended for it")
    filtered.send("x\n")
    filtered.expect(r"WELL\r?\n")
    ended(t, filtered)

    private = started(t, "private", UNDUMPABLE)
    if t.mode == "user":
        given_up(t, group, "not dumpable", 3, ["private", str(private.pid), "dumpable"])
    else:
        group.checkpoint_works("with one that isn't dumpable")
    private.send("x\n")
    private.expect(r"WELL\r?\n")
    ended(t, private)

    traced = group.counts()[1][0]
    tracer = processes.spawn(["/usr/bin/python3", "-c", TRACER, str(traced)], stdin="/dev/null",
                             stdout=os.path.join(t.folder, "tracer"), new_session=True)

    def traces():
        with open(f"/proc/{traced}/status") as file:
            return f"TracerPid:\t{tracer}\n" in file.read()
    t.wait_until(traces, "the tracer to trace")
    given_up(t, group, "traced by another", 3, [str(traced), "traced by", str(tracer)])
    os.kill(tracer, signal.SIGKILL)
    t.wait_until(lambda: not traces(), "the tracer to have gone")
    group.checkpoint_works("when nobody traces it any more")
    group.survives_a_restart()
