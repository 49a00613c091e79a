"""A program whose seccomp filter kills for nearly all that a checkpoint calls in it, with threads: cairn-capture, which has the filter
suspended, is killed (kill -9) in each phase; the program goes on under its filter, and can be saved and restarted afterwards."""
# ci: exact (filters are suspended for the machine's root only)
# root: filters are suspended for the machine's root only
import os
import subprocess
from cairn_test import Skip, check
from cairn_test.killed_capture import checkpoint_killed_in, new_coordinator

# rt_sigprocmask is what puts a thread back when nobody suspends the filter any more.
PROGRAM = r"""
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>
static int ends[2], begun;
static void *asleep(void *nothing) {
    char byte;
    __atomic_add_fetch(&begun, 1, __ATOMIC_SEQ_CST);
    while (read(ends[0], &byte, 1) != 0) {}
    return nothing;
}
int main(void) {
    struct sock_filter code[] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
                                 BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_read, 4, 0),
                                 BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_write, 3, 0),
                                 BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_exit_group, 2, 0),
                                 BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_rt_sigprocmask, 1, 0),
                                 BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
                                 BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
    const struct sock_fprog program = {sizeof code / sizeof *code, code};
    pthread_t thread;
    if (pipe(ends) != 0) return 1;
    for (int i = 0; i < 5; ++i)
        if (pthread_create(&thread, 0, asleep, 0) != 0) return 1;
    while (__atomic_load_n(&begun, __ATOMIC_SEQ_CST) != 5) usleep(1000); // who begins calls more than that
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return 1;
    if (write(1, "READY\n", 6) != 6) return 1;
    if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program) != 0) return 1;
    for (char line[64]; ;) {
        const ssize_t length = read(0, line, sizeof line);
        if (length == 2 && line[0] == 'q') _exit(7);
        if (length > 0 && write(1, line, (size_t)length) != length) return 1;
    }
}
"""


def answers(t, program, text):
    program.send(f"{text}\n")
    program.expect(rf"{text}\r?\n{text}\r?\n", 20)
    member = t.members()[0]
    with open(f"/proc/{member.get('real') or member['pid']}/status", encoding="utf-8") as file:
        check("Seccomp:\t2" in file.read(), "the filter is lost")


def test(t):
    if t.mode not in ("exact", "virtual"):
        raise Skip("only the machine's root can suspend filters")
    with open(os.path.join(t.work, "filtered.c"), "w", encoding="utf-8") as file:
        file.write(PROGRAM)
    subprocess.run(["gcc", "-O1", "-w", "-pthread", "filtered.c", "-o", "filtered"], cwd=t.work, check=True)
    program = t.launch([os.path.join(t.work, "filtered")])
    program.expect("READY", 60)
    answers(t, program, "begun")
    for number in range(20 if t.soak else 1):
        for phase in ("stop", "collect", "objects", "fork", "resume"):
            checkpoint_killed_in(t, phase)
            answers(t, program, f"{phase}{number}")
    new_coordinator(t)
    for number in range(t.rounds):
        program, _ = t.cycle(program, number)
        answers(t, program, f"again{number}")
    program.send("q\n")
    program.expect_exit(7)
