"""The session's table of processes is full: a launch is refused, who is born goes on natively and is named by list, status and the
checkpoint that is refused for it; whoever gets a place later belongs to the computation like everybody else. The table is a small
one (CAIRN_SLOTS). `full_table.py --mode exact large` fills the real one, of 16,384: by hand."""
# ci: virtual userns
import json
import os
import time
from cairn_test import check, processes

# Counts, each process in a file of its own pid's name. On stdin of the first: fork, exec (a child that executes this again), large N.
PROGRAM = r"""
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
static void count(void) {
    char name[30], text[30];
    sprintf(name, "count.%d", (int)getpid());
    int file = open(name, O_WRONLY | O_CREAT, 0644);
    for (long i = 1; file >= 0; i++) {
        int size = sprintf(text, "%10ld\n", i);
        if (pwrite(file, text, size, 0) != size) break;
        usleep(20000);
    }
    _exit(9);
}
int main(int argc, char** argv) {
    char line[100];
    signal(SIGCHLD, SIG_IGN);
    if (argc > 1) count();
    setvbuf(stdout, 0, _IOLBF, 0);
    printf("READY\n");
    while (fgets(line, sizeof line, stdin)) {
        int many = 1, large = sscanf(line, "large %d", &many) == 1;
        pid_t child = 0;
        for (int i = 0; i < many; i++) {
            child = fork();
            if (child < 0) { printf("FAILED after %d\n", i); break; }
            if (child == 0 && large) for (;;) pause();
            if (child == 0 && line[0] == 'e') execl(argv[0], argv[0], "child", (char*)0);
            if (child == 0) count();
        }
        printf("BORN %d\n", (int)child);
    }
    return 3;
}
"""
PLACES = 8


def ticks(t, pid):
    try:
        with open(os.path.join(t.work, f"count.{pid}")) as file:
            return int(file.read() or 0)
    except (OSError, ValueError):
        return 0


def all_tick(t, pids, when):
    check(pids, f"nobody is asked {when}")
    for pid in pids:
        before = ticks(t, pid)
        t.wait_until(lambda: ticks(t, pid) != before, f"{pid} to go on {when}", 15)


def born(program, how):
    program.send(how + "\n")
    return int(program.expect(r"BORN (\d+)\r?\n").group(1))


def manifest_of(folder):
    with open(os.path.join(folder, "manifest.json")) as file:
        manifest = json.load(file)
    return manifest.get("manifest", manifest)


def images_of(folder):
    return {image["pid"] for image in manifest_of(folder)["images"]} - {0}  # the objects are nobody's


def listed(t):
    """(members, those without a place) by `cairn list`."""
    rows = t.members()
    outside = {row["pid"] for row in rows if row["state"] == "unregistered"}
    check(all("no place" in row["foreign"] for row in rows if row["pid"] in outside), f"why isn't said: {rows}")
    return {row["pid"] for row in rows} - outside, outside


def launch_is_refused(t, places):
    left = os.path.join(t.work, "launched")
    code, out, err = t.command("launch", "touch", left)
    check(code == 3, f"a launch into a full table ended with {code}: {err or out}")
    for word in (f"session {t.name}", f"{places} of {places}", "--session", "touch"):
        check(word in err, f"'{word}' isn't said: {err}")
    check(not os.path.exists(left), "it was said to be refused, and ran")
    return err.strip()


def refused(t, missing):
    before = t.latest()
    code, out, err = t.command("checkpoint")
    check(code == 3, f"a checkpoint without {missing} ended with {code}: {err or out}")
    check(all(str(pid) in err for pid in missing) and "no place" in err, f"{missing} aren't named: {err}")
    check(t.latest() == before, "something was published")
    return err.strip()


def start(t):
    path = os.path.join(t.folder, "forker")
    with open(path + ".c", "w") as file:
        file.write(PROGRAM)
    code, _, errors = t.run(["gcc", "-O1", "-w", "-o", path, path + ".c"])
    check(code == 0, errors)
    program = t.launch([path])
    program.expect(r"READY\r?\n")
    t.wait_members(1)
    return program


def test(t):
    if "large" in t.arguments.names:
        return large(t)
    t.env["CAIRN_SLOTS"] = str(PLACES)
    program = start(t)
    children = [born(program, "fork") for _ in range(PLACES - 2)] + [born(program, "exec")]
    t.wait_members(PLACES)
    all_tick(t, children, "at the beginning")
    saved = images_of(t.checkpoint())
    check(len(saved) == PLACES, f"of a table that is full to the last place {saved} are saved")
    t.say(launch_is_refused(t, PLACES))
    check(t.status()["overflow"] == 0, "somebody is missing to whom nothing has happened")

    # Two more: they run, and are known to be missing.
    late = {born(program, "fork"), born(program, "exec")}
    all_tick(t, late, "without a place")
    t.wait_until(lambda: listed(t)[1] == late, f"list to name {late}")
    check(t.status()["overflow"] == 2 and len(listed(t)[0]) == PLACES, f"status or list: {t.status()}")
    said = t.must("status")
    check("2 processes" in said and "no place" in said, f"status says nothing of it: {said}")
    t.say(refused(t, late))
    all_tick(t, [*children, *late], "after a refused checkpoint")
    folder = t.checkpoint("--without-strangers")
    notes = manifest_of(folder)["notes"]
    check(all(any(str(pid) in note and "left out" in note for note in notes) for pid in late), f"not in the manifest: {notes}")
    check(len(images_of(folder)) == PLACES and not images_of(folder) & late, f"images of {images_of(folder)}")
    all_tick(t, [*children, *late], "after a checkpoint without them")

    # Two end: their places are the others'.
    for pid in children[:2]:
        os.kill(pid, 9)
    children = children[2:]
    t.wait_until(lambda: listed(t) == ({program_pid(t, program), *children, *late}, set()), "those two to get places")
    check(t.status()["overflow"] == 0, "somebody is still said to be missing")
    folder = t.checkpoint()
    check(images_of(folder) == {program_pid(t, program), *children, *late}, f"images of {images_of(folder)}")
    launch_is_refused(t, PLACES)
    os.kill(children.pop(), 9)
    t.wait_until(lambda: t.command("launch", "true")[0] == 0, "a launch to be possible again")
    t.checkpoint()
    t.pull_the_plug()
    t.restart()
    all_tick(t, [*children, *late], "after the restart")
    check(listed(t)[1] == set() and len(listed(t)[0]) == PLACES - 1, f"after the restart: {t.members()}")


def program_pid(t, program):
    return program.pid


def large(t):
    """The real table. Needs some GB of memory, and minutes."""
    places, more = 16384, 50
    program = start(t)
    began = time.monotonic()
    program.send(f"large {places - 1 + more}\n")
    said = program.expect(r"(BORN|FAILED after) \d+\r?\n", timeout=1200).group(0)
    check(b"BORN" in said, f"this machine has no room for so many: {said}")
    t.say(f"{places + more} processes after {time.monotonic() - began:.1f} s")
    t.wait_until(lambda: (t.status() or {}).get("processes", 0) >= places, "the table to be full", 600)
    t.say(f"full after {time.monotonic() - began:.1f} s")
    t.say(launch_is_refused(t, places))
    began = time.monotonic()
    status = t.status()
    check(status["overflow"] == more and status["processes"] == places, f"status: {status}")
    t.say(f"status took {time.monotonic() - began:.1f} s: {status['overflow']} have no place")
    began = time.monotonic()
    code, out, err = t.command("checkpoint", timeout=600)
    check(code == 3 and "no place" in err and f"{more - 20} others" in err, f"{code}: {err or out}")
    t.say(f"a checkpoint was refused after {time.monotonic() - began:.1f} s: {err.strip()[:400]} ...")
    began = time.monotonic()
    code, out, err = t.command("kill", timeout=600)
    t.say(f"kill ended with {code} after {time.monotonic() - began:.1f} s: {out}{err}")
    t.wait_until(lambda: processes.reap() or (t.status() or {}).get("processes", 0) == 0, "all to be gone", 300)
