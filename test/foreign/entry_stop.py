"""A tracer that holds its tracee before a call with a relative timeout, over a checkpoint and a restart: the call's arguments are what they were, and it lasts as
long as the program asked for, in whatever time it was held."""
# ci: exact
import os
import subprocess

NEEDS = ["/usr/bin/gcc"]

SOURCE = r"""#define _GNU_SOURCE
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec / 1e9;
}

static void fail(const char *what) {
    perror(what);
    exit(99);
}

/* To the next stop of a system call. */
static struct user_regs_struct to_call(pid_t pid) {
    struct user_regs_struct registers;
    int status;
    if (ptrace(PTRACE_SYSCALL, pid, 0, 0) != 0 || waitpid(pid, &status, 0) != pid)
        fail("going on");
    if (!WIFSTOPPED(status)) {
        printf("the tracee has ended: %x\n", status);
        exit(98);
    }
    if (ptrace(PTRACE_GETREGS, pid, 0, &registers) != 0)
        fail("registers");
    return registers;
}

static struct timespec read_time(pid_t pid, unsigned long at) {
    struct timespec t = {-1, -1};
    struct iovec here = {&t, sizeof t}, there = {(void *)at, sizeof t};
    process_vm_readv(pid, &here, 1, &there, 1, 0);
    return t;
}

int main(void) {
    setvbuf(stdout, 0, _IOLBF, 0);
    pid_t pid = fork();
    if (pid == 0) {
        ptrace(PTRACE_TRACEME, 0, 0, 0);
        raise(19);
        struct timespec half = {0, 500000000};
        for (int round = 0; round < 3; ++round)
            if (nanosleep(&half, 0) != 0)
                return 1;
        for (int round = 0; round < 3; ++round)
            if (poll(0, 0, 500) != 0)
                return 2;
        return 0;
    }
    int status;
    if (waitpid(pid, &status, 0) != pid || ptrace(PTRACE_SETOPTIONS, pid, 0, PTRACE_O_EXITKILL | PTRACE_O_TRACESYSGOOD) != 0)
        fail("beginning");
    for (int round = 0; round < 6; ++round) {
        struct user_regs_struct before, after, left;
        do {
            before = to_call(pid);
        } while (before.orig_rax != SYS_clock_nanosleep && before.orig_rax != SYS_nanosleep && before.orig_rax != SYS_poll);
        unsigned long at = before.orig_rax == SYS_nanosleep ? before.rdi : before.rsi == 0 && before.orig_rax != SYS_poll ? before.rdx : 0;
        struct timespec asked = read_time(pid, at);
        printf("held in round %d\n", round);
        char line[16];
        if (fgets(line, sizeof line, stdin) == 0)
            fail("the end");
        if (ptrace(PTRACE_GETREGS, pid, 0, &after) != 0)
            fail("registers");
        struct timespec still = read_time(pid, at);
        int same = memcmp(&before, &after, sizeof before) == 0 && memcmp(&asked, &still, sizeof asked) == 0;
        double begun = now();
        left = to_call(pid);
        double took = now() - begun;
        printf("round %d: arguments %s, it took %s, result %d\n", round, same ? "unchanged" : "changed", took > 0.49 ? "long enough" : "too short",
               (int)left.rax);
    }
    ptrace(PTRACE_CONT, pid, 0, 0);
    if (waitpid(pid, &status, 0) != pid)
        fail("waitpid");
    printf("tracee: code %d\n", WEXITSTATUS(status));
    return 0;
}
"""


def test(t):
    source, program = os.path.join(t.work, "holder.c"), os.path.join(t.work, "holder")
    with open(source, "w") as file:
        file.write(SOURCE)
    subprocess.run(["gcc", "-O1", "-o", program, source], check=True)
    running = t.launch([program])
    for number in range(6):
        running.expect(rf"held in round {number}\r?\n")
        if number < t.rounds or number in (3, 4):
            t.sleep(0.2)
            running, _ = t.cycle(running, number)
        running.send("on\n")
        running.expect(rf"round {number}: arguments unchanged, it took long enough, result 0\r?\n")
    running.expect(r"tracee: code 0\r?\n")
    running.expect_exit(0)
