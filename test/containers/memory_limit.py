"""A memory limit: of a program that writes to all of its memory a checkpoint's copy doesn't fit beside it: the kernel kills the copy, the
program goes on, the next checkpoint with more room is good, and comes back under the limit."""
# timeout: 300
import os
from cairn_test import Skip, check

MEGABYTES, LIMIT = 120, 200
PROGRAM = f"""
import mmap, sys
size, page, step = {MEGABYTES} << 20, 4096, 0
held = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
noise = open('/dev/urandom', 'rb')
for at in range(0, size, 1 << 20):
    held[at:at + (1 << 20)] = noise.read(1 << 20)
while True:
    step += 1
    for at in range(0, size, page):
        held[at:at + 8] = step.to_bytes(8, 'little')
    wrong = sum(held[at:at + 8] != step.to_bytes(8, 'little') for at in range(0, size, page))
    print('step', step, 'wrong', wrong, flush=True)
"""


class Group:
    """A cgroup of the test's own, of v1 or v2."""

    def __init__(self, t):
        name = os.path.basename(t.folder)
        self.old = os.path.exists("/sys/fs/cgroup/memory/memory.limit_in_bytes")
        self.folder = os.path.join("/sys/fs/cgroup/memory" if self.old else "/sys/fs/cgroup", name)
        try:
            if not self.old:
                with open("/sys/fs/cgroup/cgroup.subtree_control", "w") as file:
                    file.write("+memory")
            os.mkdir(self.folder)
            self.limit(LIMIT)
        except OSError as error:
            raise Skip(f"no cgroup with a memory limit can be had: {error}") from None

    def limit(self, megabytes):
        with open(os.path.join(self.folder, "memory.limit_in_bytes" if self.old else "memory.max"), "w") as file:
            file.write(str(megabytes << 20))
        if not self.old:
            with open(os.path.join(self.folder, "memory.swap.max"), "w") as file:
                file.write("0")

    def kills(self):
        with open(os.path.join(self.folder, "memory.oom_control" if self.old else "memory.events")) as file:
            return int(next(line.split()[1] for line in file if line.startswith("oom_kill ")))

    def enter(self):
        return ["sh", "-c", f'echo $$ > {self.folder}/cgroup.procs && exec "$@"', "sh"]

    def close(self):
        try:
            os.rmdir(self.folder)
        except OSError:
            pass


def test(t):
    group = Group(t)
    try:
        program = t.launch(["/usr/bin/python3", "-c", PROGRAM], wrapper=group.enter())
        program.expect("step 2 ")
        given_up = 0
        for _ in range(10):
            code, out, err = t.command("checkpoint")
            if group.kills() > 0:
                given_up = code
                break
        check(group.kills() > 0, "the limit was never met: nothing was tested")
        t.say(f"{group.kills()} killed for the limit; cairn checkpoint ended with {given_up}: {err.strip()}")
        check(given_up == 1 and "the programs go on" in err and "memory" in err, f"the checkpoint should have been given up: {given_up} {out}{err}")
        program.expect("step ")
        check(t.has_members(1), "the program isn't a member any more")
        group.limit(4 * MEGABYTES)
        t.checkpoint()
        program.expect("step ")
        check(b"wrong 0" in program.terminal.text and b"wrong 1" not in program.terminal.text, "memory is wrong")
        t.pull_the_plug()
        group.limit(LIMIT)
        script = os.path.join(t.folder, "under")
        with open(script, "w") as file:
            file.write(f'#!/bin/sh\necho $$ > {group.folder}/cgroup.procs && exec {t.ckptdir}/restart.sh "$@"\n')
        os.chmod(script, 0o755)
        kills = group.kills()
        program = t.restart(script=script)
        found = program.expect(r"step \d+ wrong (\d+)")
        check(int(found[1]) == 0 and group.kills() == kills, f"after the restart {found[1]} pages are wrong, {group.kills() - kills} were killed")
    finally:
        t.pull_the_plug()
        group.close()
