"""Processes that belong to the computation and have not registered, born and executed past the library: a static child, and an
orphan that has dropped LD_PRELOAD. A checkpoint finds and saves them, or, if it is told so, leaves them out and says so."""
import json
import os
import signal
import time
from cairn_test import check, processes
from cairn_test.ticking import Ticking

# System calls of its own: no wrapper of the library's sees them.
PAST = r"""
#include <stdio.h>
#include <string.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>
static long call(long number, const void* a, const void* b, const void* c) {
    long result;
    __asm__ volatile("syscall" : "=a"(result) : "a"(number), "D"(a), "S"(b), "d"(c) : "rcx", "r11", "memory");
    return result;
}
extern char** environ;
int main(int argc, char** argv) {
    int orphan = strcmp(argv[1], "orphan") == 0;
    char* none[] = {0, 0};
    for (char** each = environ; orphan && *each; ++each)
        if (strncmp(*each, "CAIRN_REGION=", 13) == 0) none[0] = *each;
    long child = call(SYS_fork, 0, 0, 0);
    if (child == 0) {
        if (orphan && call(SYS_fork, 0, 0, 0) != 0) call(SYS_exit, 0, 0, 0);
        call(SYS_execve, argv[2], argv + 2, none);
        call(SYS_exit, (void*)1, 0, 0);
    }
    printf("READY\n"), fflush(stdout);
    char line[10];
    while (read(0, line, sizeof line) > 0) printf("WELL\n"), fflush(stdout);
    return 3;
}
"""
SLEEPER = r"""
#include <unistd.h>
int main(void) { for (;;) sleep(1000); }
"""


def compiled(t, name, source, *options):
    path = os.path.join(t.folder, name)
    with open(path + ".c", "w") as file:
        file.write(source)
    code, _, errors = t.run(["gcc", "-O1", "-w", *options, "-o", path, path + ".c"])
    check(code == 0, errors)
    return path


def manifest_of(folder):
    with open(os.path.join(folder, "manifest.json")) as file:
        manifest = json.load(file)
    return manifest.get("manifest", manifest)


def saved(folder):
    return [image["pid"] for image in manifest_of(folder)["images"]]


def named(name):
    return [pid for pid in processes.descendants() if (processes.stat(pid) or ("",))[0] == name]


def with_one(t, group, past, how, sleeper):
    name = os.path.basename(sleeper)
    program = t.launch([past, how, sleeper])
    program.expect(r"READY\r?\n")
    t.wait_until(lambda: named(name), f"{name} to run")
    stranger = named(name)[0]
    folder = t.checkpoint("--without-strangers")
    check(any(str(stranger) in note and "left out" in note for note in manifest_of(folder)["notes"]),
          f"not in the manifest: {manifest_of(folder)['notes']}")
    check(stranger not in saved(folder), "it has an image")
    code, out, err = t.command("inspect", folder)
    check(code == 0 and f"{stranger} ({name}) is left out" in out, f"inspect says nothing of it: {out}{err}")
    began = time.monotonic()
    folder = t.checkpoint()
    check(stranger in saved(folder), f"{how}: {stranger} has no image")
    t.say(f"{how}: found and saved in {time.monotonic() - began:.1f} s")
    group.all_tick(f"after a checkpoint with {how}")
    program.send("x\n")
    program.expect(r"WELL\r?\n")
    os.kill(stranger, signal.SIGKILL)
    t.wait_until(lambda: processes.reap() or not named(name), f"{name} to be gone")
    group.checkpoint_works(f"when {how} has gone")
    program.send("\x04")
    program.expect_exit(3)
    t.programs.remove(program)


def test(t):
    group = Ticking(t, children=1)
    group.checkpoint_works("before")
    past = compiled(t, "past", PAST)
    with_one(t, group, past, "a static child", compiled(t, "alone", SLEEPER, "-static"))
    with_one(t, group, past, "orphan", compiled(t, "unbound", SLEEPER))
    group.survives_a_restart()
