"""A restart under lower hard limits than the checkpoint's: every limit is as high as it may be, and said to be lower; nothing
is zero. Notes are printed whatever pass makes them, with --check as well."""
import json
import os
import resource
from cairn_test import check

PROGRAM = r"""
import json, os, resource, sys
log = open(sys.argv[1], "a")
log.write("begun\n"), log.flush()
names = sorted(name for name in dir(resource) if name.startswith("RLIMIT_") and name != "RLIMIT_OFILE")
for line in sys.stdin:
    print("LIMITS", json.dumps({name: resource.getrlimit(getattr(resource, name)) for name in names}), flush=True)
"""

# Sets what it is told, in its own process, and becomes the command.
UNDER = r"""
import json, os, resource, sys
for name, value in json.loads(sys.argv[1]).items():
    hard = resource.getrlimit(getattr(resource, name))[1]
    if hard == -1 or hard > value:
        resource.setrlimit(getattr(resource, name), (value, value))
os.execv(sys.argv[2], sys.argv[2:])
"""

LOWER = {"RLIMIT_CPU": 5000, "RLIMIT_FSIZE": 1 << 36, "RLIMIT_DATA": 1 << 36, "RLIMIT_STACK": 32 << 20, "RLIMIT_CORE": 1 << 22,
         "RLIMIT_RSS": 1 << 40, "RLIMIT_NPROC": 4000, "RLIMIT_NOFILE": 700, "RLIMIT_MEMLOCK": 1 << 16, "RLIMIT_AS": 1 << 44,
         "RLIMIT_SIGPENDING": 300, "RLIMIT_MSGQUEUE": 700000, "RLIMIT_NICE": 0, "RLIMIT_RTPRIO": 0, "RLIMIT_RTTIME": 10 ** 12}


def least(a, b):
    return b if a == -1 else a if b == -1 else min(a, b)


def may_raise():
    pid = os.fork()
    if pid == 0:
        try:
            resource.setrlimit(resource.RLIMIT_CORE, (5, 5))
            resource.setrlimit(resource.RLIMIT_CORE, (6, 6))
        except (ValueError, OSError):
            os._exit(1)
        os._exit(0)
    return os.waitpid(pid, 0)[1] == 0


def limits_of(program):
    program.send("limits\n")
    return json.loads(program.expect(r"LIMITS ([^\r\n]*)\r?\n")[1])


def test(t):
    program = t.launch(["/usr/bin/python3", "-c", PROGRAM, "log"])
    t.wait_members(1)
    before = limits_of(program)
    folder = t.checkpoint()
    t.pull_the_plug()

    # Notes of --check: the file has grown since.
    with open(os.path.join(t.work, "log"), "a") as log:
        log.write("more\n")
    code, out, err = t.command("restart", "--check", folder)
    check(code == 0 and "/log" in err, f"--check says nothing of the file that has grown: {code} {out}{err}")

    script = os.path.join(t.folder, "under")
    with open(script, "w") as file:
        file.write(f"#!/bin/sh\nexec /usr/bin/python3 -c '{UNDER}' '{json.dumps(LOWER)}' {t.ckptdir}/restart.sh \"$@\"\n")
    os.chmod(script, 0o755)
    free = may_raise()
    program = t.restart(script=script)
    after = limits_of(program)
    with open(program.errors) as file:
        said = file.read()
    lowered = []
    for name, (soft, hard) in before.items():
        allowed = hard if free else least(hard, LOWER.get(name, -1))
        expected = [least(soft, allowed), allowed]
        check(after[name] == expected, f"{name} was {soft}, {hard}; it is {after[name]}, and should be {expected}\n{said}")
        if allowed != hard:
            lowered.append(name)
            check(f"{name} was " in said, f"nothing is said of {name}: {said}")
    check(free or len(lowered) >= 9, f"too few limits could be tried: {lowered}")
    t.say(f"lower: {', '.join(lowered) or 'none, this user may raise them'}")
    # Nothing is lost by it: the next checkpoint, and its restart under the same limits.
    t.cycle(program, 1, script=script)
    check(limits_of(t.programs[-1]) == after, "the second restart has other limits")

    if t.mode in ("exact", "virtual"):
        t.pull_the_plug()
        of_another_user(t)


def of_another_user(t):
    """Root's restart sets them for a process that isn't root's."""
    program = t.launch(["/usr/bin/prlimit", "--core=4096:8192", "/usr/bin/setpriv", "--reuid=65534", "--regid=65534", "--clear-groups",
                        "/usr/bin/python3", "-c", PROGRAM, "/dev/null"])
    t.wait_members(1)
    before = limits_of(program)
    program, _ = t.cycle(program, 0)
    check(limits_of(program) == before, f"{before} became {limits_of(program)}")
    with open(program.errors) as file:
        check("RLIMIT" not in file.read(), "a note of limits that are as they were")
