"""What living programs are in (`cairn list --stacks`, `--waits`, `w` in the console): functions, lines, system calls and what they wait for, of a threaded program that counts what it notices (EINTR, short writes,
longer timeouts), before and after a restart; one that is traced, one that has ended, a static one and one that isn't dumpable are said in words."""
# ci: exact
import json
import os
import re
import statistics
import subprocess
from cairn_test import check, processes

NEEDS = ["/usr/bin/strace", "/usr/bin/c++", "/usr/bin/busybox"]

SOURCE = r"""#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/sem.h>
#include <time.h>
#include <unistd.h>
static int quiet[2], data[2];
static volatile long waits, writes, late;
static void noticed(const char *what) { printf("NOTICED %s: %s\n", what, strerror(errno)); fflush(stdout); }
static double now(void) { struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return t.tv_sec + t.tv_nsec / 1e9; }
static __attribute__((noinline)) int read_deep(int depth) {
    char byte;
    if (depth > 0) return read_deep(depth - 1) + 1;
    if (read(quiet[0], &byte, 1) != 1) noticed("read");
    return 0;
}
static void *reader(void *) { return (void *)(long)read_deep(3); }
static void *poller(void *) {
    int poll = epoll_create1(0);
    struct epoll_event event;
    for (;;) {
        const double begin = now();
        if (epoll_wait(poll, &event, 1, 300) != 0) noticed("epoll_wait");
        if (now() - begin > 0.55) ++late;  /* made again with all of its timeout each time it would never end */
        ++waits;
    }
}
static void *taker(void *) {
    const int set = semget(IPC_PRIVATE, 1, 0600);
    struct sembuf take = {0, -1, 0};
    if (semop(set, &take, 1) != 0) noticed("semop");
    return nullptr;
}
static void *writer(void *) {
    const long size = 2 << 20;  /* all looks meet the same call, on a stack of 16 KB */
    char *block = (char *)calloc(1, size);
    for (;;) {
        if (write(data[1], block, size) != size) noticed("write");
        ++writes;
    }
}
static void *drainer(void *) {
    char block[16384];
    for (;;) {
        if (read(data[0], block, sizeof block) <= 0) noticed("drain");
        usleep(20000);
    }
}
int main(void) {
    pthread_t threads[5];
    void *(*const bodies[5])(void *) = {reader, poller, taker, writer, drainer};
    if (pipe(quiet) || pipe(data)) return 1;
    pthread_attr_t small;
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 16384);
    for (int i = 0; i < 5; ++i) pthread_create(&threads[i], bodies[i] == writer ? &small : nullptr, bodies[i], nullptr);
    usleep(100000);
    for (char line[64]; puts("READY"), fflush(stdout), fgets(line, sizeof line, stdin);)
        printf("WAITS %ld WRITES %ld LATE %ld\n", waits, writes, late);
}
"""

# Between two calls the poller is in none.
CALLS = {"reader": ("read",), "poller": ("epoll_wait", ""), "taker": ("semop", "semtimedop"), "main": ("read",)}


def look(t, *options):
    code, out, err = t.command("list", "--stacks", "--json", *options)
    check(code == 0, f"list --stacks: {code} {err}")
    return json.loads(out)


def functions(thread):
    return [frame["function"] for frame in thread["frames"]]


def check_threads(t, process, where):
    """Each thread with its own function and line, and what it sleeps in."""
    check(process["problem"] == "" and len(process["threads"]) == 6, f"{where}: {process}")
    check(process["threads"][0]["tid"] == process["pid"], f"{where}: the main thread isn't the first: {process}")
    seen = {}
    for thread in process["threads"]:
        names = functions(thread)
        mine = [name for name in ("reader", "poller", "taker", "writer", "drainer", "main") if name in names]
        check(len(mine) == 1 and thread["broken"] == "", f"{where}: {names} {thread['broken']}")
        own = next(frame for frame in thread["frames"] if frame["function"] == mine[0])
        check(own["file"].endswith("program.cpp") and own["line"] > 0, f"{where}: {own}")
        seen[mine[0]] = thread
    for name, calls in CALLS.items():
        check(seen[name]["call"] in calls, f"{where}: {name} is in {seen[name]['call']}")
    check(functions(seen["reader"]).count("read_deep") == 4, f"{where}: {functions(seen['reader'])}")
    check(seen["reader"]["object"].startswith("pipe:["), f"{where}: {seen['reader']['object']}")
    return process["pause_ns"]


def counts(group):
    group.send("\n")
    found = group.expect(r"WAITS (\d+) WRITES (\d+) LATE (\d+)")
    return [int(each) for each in found.groups()]


def look_often(t, group, where):
    pauses = []
    before = counts(group)
    for _ in range(200 if t.soak else 25):
        process, = look(t)
        pauses.append(check_threads(t, process, where))
    t.wait_until(lambda: counts(group)[0] > before[0] and counts(group)[1] > before[1], "timeouts and writes to end")
    after = counts(group)
    check(after[2] - before[2] <= 2, f"{where}: {after[2] - before[2]} timeouts of 300 ms took twice as long")
    check("NOTICED" not in group.terminal.text.decode(), f"{where}: {group.terminal.tail()}")
    t.say(f"{where}: six threads stood still for {statistics.median(pauses) / 1e3:.0f} us, {max(pauses) / 1e3:.0f} us at most, of {len(pauses)} looks")
    check(statistics.median(pauses) < 20e6, f"{where}: pauses of {statistics.median(pauses) / 1e6:.1f} ms")


def problem_of(t, pid):
    process, = look(t, str(pid))
    return process["problem"]


def tracer_of(pid):
    with open(f"/proc/{pid}/status") as status:
        return int(re.search(r"^TracerPid:\s*(\d+)", status.read(), re.M)[1])


def unfit(t, main):
    """Who can't be looked at."""
    tracer = subprocess.Popen(["strace", "-qq", "-e", "trace=none", "-o", "/dev/null", "-p", str(main["real"])], stdin=subprocess.DEVNULL)
    try:
        # A look of ours at the same instant would be in strace's way, as strace is in its.
        t.wait_until(lambda: tracer_of(main["real"]) == tracer.pid, "strace to be attached")
        t.wait_until(lambda: "is being traced by" in problem_of(t, main["pid"]), "strace to be named")
        check(f"{tracer.pid} (strace)" in problem_of(t, main["pid"]), problem_of(t, main["pid"]))
    finally:
        tracer.terminate()
        tracer.wait()
    t.wait_until(lambda: problem_of(t, main["pid"]) == "", "strace to be gone")

    t.launch(["busybox", "sleep", "1000"], terminal="none")
    script = "import ctypes, time; ctypes.CDLL(None).prctl(4, 0, 0, 0, 0); time.sleep(1000)"
    t.launch(["/usr/bin/python3", "-c", script], terminal="none")
    def found(name):
        return [each for each in t.members() if each["name"] == name]
    t.wait_until(lambda: found("busybox") and found("python3"), "two more")
    check("static program" in problem_of(t, found("busybox")[0]["pid"]), problem_of(t, found("busybox")[0]["pid"]))
    if os.geteuid() != 0 or "user" in str(t.mode):
        t.wait_until(lambda: "may not be traced" in problem_of(t, found("python3")[0]["pid"]), "one that isn't dumpable")

    code, out, err = t.command("list", "--waits")
    check(code == 0 and len(out.splitlines()) == 4, f"{code} {out} {err}")
    line = next(line for line in out.splitlines() if f" {main['pid']} " in f" {line} ")
    check("read of 0 (/dev/pts/" in line and "main (program.cpp:" in line, line)

    code, _, err = t.command("list", "--stacks", "1")
    check(code == 1 and "cairn list" in err, f"{code} {err}")
    code, _, err = t.command("list", "1")
    check(code == 2 and "--stacks" in err, f"{code} {err}")


def ended(t):
    """A zombie: of the capture itself, because who has ended is no member any more."""
    zombie = subprocess.Popen(["true"])
    os.waitid(os.P_PID, zombie.pid, os.WEXITED | os.WNOWAIT)
    region = os.path.join(t.env["CAIRN_RUNDIR"], t.name, "region")
    done = subprocess.run([os.path.join(t.build, "bin", "cairn-capture"), "glance", region, str(zombie.pid)], capture_output=True, check=True, env=t.env)
    zombie.wait()
    check(b"it has ended" in done.stdout, done.stdout)


def console(t):
    group = t.launch(["sleep", "1000"], terminal="none", options=("--session", "looked-at"))
    t.wait_until(lambda: "sleep 1000" in t.command("list", "--session", "looked-at")[1], "the program to be there")
    t.wait_until(lambda: t.command("quit", "--session", "looked-at")[0] == 5, "the coordinator to end")
    shown = t.launch([t.cairn, "coordinator", "--session", "looked-at"], native=True, name="console",
                     wrapper=["env", *(f"{key}={value}" for key, value in t.env.items() if key.startswith("CAIRN_"))])
    shown.expect("h for help")
    for _ in range(2):
        shown.send("w\r")
        shown.expect(r"WAITS FOR.*sleep +clock_nanosleep")
        t.sleep(0.5)  # it is over when cairn-stacks has ended
    shown.send("k\r")
    shown.expect("1 process ended")
    shown.send("q\r")
    check(processes.describe_status(group.exit_status()) != "", "no end")


def test(t):
    source, program = os.path.join(t.work, "program.cpp"), os.path.join(t.work, "program")
    with open(source, "w", encoding="utf-8") as file:
        file.write(SOURCE)
    code, _, err = t.run(["c++", "-g", "-O1", "-fno-optimize-sibling-calls", "-pthread", "-o", program, source])
    check(code == 0, err)
    group = t.launch([program])
    group.expect("READY")
    look_often(t, group, "at first")
    t.checkpoint()
    t.pull_the_plug()
    group = t.restart()
    look_often(t, group, "restarted")
    if t.mode != "userns":  # who came back there may not be traced by the test's own strace
        unfit(t, t.members()[0])
    ended(t)
    console(t)
    t.must("kill")
