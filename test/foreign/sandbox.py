"""A sandbox that traces what runs in it (PTRACE_O_EXITKILL), and denies some of its calls: by a seccomp filter that asks the tracer, as root, and by stopping
at each system call. What is denied is denied in every life, what is allowed happens once, and the sandbox counts the processes that it has seen."""
# ci: user
import os
import subprocess

NEEDS = ["/usr/bin/gcc"]

SOURCE = r"""#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

static void fail(const char *what) {
    perror(what);
    exit(99);
}

static void ask_for_opening(void) {
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_openat, 1, 0),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRACE | 7),
    };
    struct sock_fprog program = {sizeof code / sizeof *code, code};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)
        fail("seccomp");
}

/* Before a call: one that opens what is called secret is not made, and fails with EACCES. */
static void judge(pid_t pid) {
    struct user_regs_struct registers;
    char path[256] = "";
    if (ptrace(PTRACE_GETREGS, pid, 0, &registers) != 0)
        return;
    if (registers.orig_rax != SYS_openat)
        return;
    struct iovec here = {path, sizeof path - 1}, there = {(void *)registers.rsi, sizeof path - 1};
    for (size_t size = sizeof path - 1; size > 0 && process_vm_readv(pid, &here, 1, &there, 1, 0) <= 0; size /= 2)
        here.iov_len = there.iov_len = size;
    if (strstr(path, "secret") == 0)
        return;
    registers.orig_rax = -1;
    registers.rax = -EACCES;
    ptrace(PTRACE_SETREGS, pid, 0, &registers);
}

int main(int argc, char **argv) {
    int filtered = argc > 2 && strcmp(argv[1], "filter") == 0;
    pid_t first = fork();
    if (first == 0) {
        ptrace(PTRACE_TRACEME, 0, 0, 0);
        raise(SIGSTOP);
        if (filtered)
            ask_for_opening();
        execvp(argv[2], argv + 2);
        fail(argv[2]);
    }
    int status, seen = 1, code = 98, asked = 0;
    long how = filtered ? PTRACE_CONT : PTRACE_SYSCALL;
    if (waitpid(first, &status, 0) != first || !WIFSTOPPED(status))
        fail("waitpid");
    long options = PTRACE_O_EXITKILL | PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK | PTRACE_O_TRACECLONE |
                   PTRACE_O_TRACEEXEC | PTRACE_O_TRACEEXIT;
    if (ptrace(PTRACE_SETOPTIONS, first, 0, options | (filtered ? PTRACE_O_TRACESECCOMP : 0)) != 0)
        fail("options");
    ptrace(how, first, 0, 0);
    for (;;) {
        pid_t pid = waitpid(-1, &status, __WALL);
        if (pid < 0)
            break;
        if (WIFEXITED(status) || WIFSIGNALED(status)) {
            if (pid == first)
                code = WIFEXITED(status) ? WEXITSTATUS(status) : 97;
            continue;
        }
        int event = status >> 16, signal = 0;
        unsigned long message = 0;
        if (event == PTRACE_EVENT_FORK || event == PTRACE_EVENT_VFORK || event == PTRACE_EVENT_CLONE) {
            if (ptrace(PTRACE_GETEVENTMSG, pid, 0, &message) != 0 || message == 0)
                fail("message");
            ++seen;
        } else if (event == PTRACE_EVENT_SECCOMP) {
            if (ptrace(PTRACE_GETEVENTMSG, pid, 0, &message) != 0 || message != 7)
                fail("data of the filter");
            ++asked;
            judge(pid);
        } else if (event == 0 && WSTOPSIG(status) == (SIGTRAP | 0x80)) {
            if (ptrace(PTRACE_GETEVENTMSG, pid, 0, &message) == 0 && message == 1 /* PTRACE_EVENTMSG_SYSCALL_ENTRY */)
                judge(pid);
        } else if (event == 0 && WSTOPSIG(status) != SIGSTOP && WSTOPSIG(status) != SIGTRAP) {
            signal = WSTOPSIG(status);
        }
        ptrace(how, pid, 0, (long)signal);
    }
    printf("sandbox: code %d, %d processes, asked %s\n", code, seen, !filtered || asked > 200 ? "often" : "seldom");
    return code;
}
"""

SCRIPT = """exec 2>&1
i=0 n=0
while [ $i -lt 60 ]; do
    i=$((i + 1)) n=$((n + 1))
    [ $i -lt 50 ] || [ -e end ] || i=1  # until there were all checkpoints
    echo line $i >> log
    cat open
    cat secret && echo leak
    (cat open >> log)
    echo line $i
    sleep 0.03
done
wc -l < log
echo $n
exit 7
"""


def run(t, kind):
    t.say(kind)
    end = os.path.join(t.work, "end")
    for path in (os.path.join(t.work, "log"), end):
        if os.path.exists(path):
            os.unlink(path)
    program = t.launch(["./sandbox", kind, "sh", "script.sh"])
    for number in range(t.rounds):
        program.expect(rf"line \d+\r?\n")
        program, shown = t.cycle(program, number, at_once=True)
        assert b"leak" not in shown, shown
    with open(end, "w"):
        pass
    said = program.expect(r"line 60\r?\n\s*(\d+)\r?\n(\d+)\r?\nsandbox: code 7, (\d+) processes, asked often", 120)
    lines, rounds, processes = (int(each) for each in said.groups())
    assert rounds >= 60 and lines == 2 * rounds and processes == 4 * rounds + 2, (rounds, lines, processes)
    assert b"leak" not in program.terminal.text, program.terminal.text
    assert program.terminal.text.count(b"ermission denied") >= 10, program.terminal.text
    program.expect_exit(7)


def test(t):
    for name, text in (("sandbox.c", SOURCE), ("script.sh", SCRIPT), ("open", "open to all\n"), ("secret", "not for you\n")):
        with open(os.path.join(t.work, name), "w") as file:
            file.write(text)
    subprocess.run(["gcc", "-O1", "sandbox.c", "-o", "sandbox"], cwd=t.work, check=True)
    run(t, "calls")
    if t.mode in ("exact", "virtual"):  # an ordinary user's filters can't be read
        run(t, "filter")
