"""Anybody on the machine may write the session's region into his environment: programs of another user's that do, static and dynamic ones, with libcairn.so and
without, are nothing to root's session. A checkpoint is neither refused for them nor has them in it, they get nothing of it, and are there when it has ended."""
# ci: exact
import os
from cairn_test import check, processes
from cairn_test.ticking import Ticking

NEEDS = ["/bin/busybox", "/usr/bin/setpriv"]

NOBODY = 65534


def claimer(t, command, library):
    """A process of nobody's, and of nobody's of ours, that says that it belongs to the session."""
    environment = {"PATH": os.environ["PATH"], "CAIRN_REGION": os.path.join(t.folder, "run", "default", "region"),
                   "CAIRN_LIBRARY": os.path.join(t.build, "lib", "libcairn.so")}
    if library:
        environment["LD_PRELOAD"] = environment["CAIRN_LIBRARY"]
    pid = os.fork()
    if pid == 0:
        os.setsid()
        os.setgroups([])
        os.setresgid(NOBODY, NOBODY, NOBODY)
        os.setresuid(NOBODY, NOBODY, NOBODY)
        os.chdir("/")
        os.execve(command[0], command, environment)
    return pid


def test(t):
    os.chmod(t.folder, 0o711)
    group = Ticking(t)
    region = os.path.join(t.folder, "run", "default", "region")
    check(os.path.exists(region), f"no region at {region}")
    claimers = [claimer(t, ["/bin/busybox", "sleep", "100000"], False), claimer(t, ["/bin/sleep", "100000"], False),
                claimer(t, ["/bin/sleep", "100000"], True), claimer(t, ["/bin/busybox", "sleep", "100000"], True)]
    t.wait_until(lambda: all("sleep" in str(processes.command_line(pid)) for pid in claimers), "the claimers to begin", 10)
    for number in range(3):
        code, out, err = t.command("checkpoint")
        check(code == 0, f"checkpoint {number} ended with {code}: {err or out}")
        code, out, err = t.command("inspect", t.latest())
        check(code == 0 and not any(str(pid) in out.split() for pid in claimers), f"a claimer is in the checkpoint: {out}")
        for pid in claimers:
            with open(f"/proc/{pid}/maps", encoding="utf-8") as file:
                maps = file.read()
            check(region not in maps and "cairn-region" not in maps, f"{pid} has got a region: {maps}")
    group.all_tick("beside the claimers")
    listed = {each["real"] for each in t.members()}
    check(not listed & set(claimers), f"a claimer is a member: {listed}")
    check(all((processes.stat(pid) or "ZZ")[1] not in "ZX" for pid in claimers), "a claimer has gone")
    t.pull_the_plug()
    t.restart()
    group.all_tick("after a restart")
