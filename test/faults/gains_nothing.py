"""A set-id program that was executed with no_new_privs, as ssh-agent under setpriv, has its user's ids only. A restart executes its file again, as root, and it has these ids still."""
# ci: exact virtual
# root: whoever restarts as a user has nothing that the bits could give
import os
import shutil
from cairn_test import check, processes


def executes(pid, program):
    try:
        return os.readlink(f"/proc/{pid}/exe") == program
    except OSError:
        return False


def ids(program):
    found = [pid for pid in processes.descendants() if executes(pid, program)]
    check(len(found) == 1, f"{len(found)} processes")
    with open(f"/proc/{found[0]}/status") as file:
        return [line.split() for line in file if line.startswith(("Uid:", "Gid:", "NoNewPrivs:", "CapEff:", "CapPrm:"))]


def test(t):
    os.chmod(t.folder, 0o755)
    for name, owner, mode in (("group", (0, 65534), 0o2755), ("user", (65534, 0), 0o4755)):
        program = os.path.join(t.work, name)
        shutil.copy("/bin/sleep", program)
        os.chown(program, *owner)
        os.chmod(program, mode)
        running = t.launch(["setpriv", "--no-new-privs", program, "1000"], name=name)
        t.wait_until(lambda wanted=program: any(executes(pid, wanted) for pid in processes.descendants()), f"{name} to run")
        t.wait_members(1)
        before = ids(program)
        check(["NoNewPrivs:", "1"] in before and ["Gid:", "0", "0", "0", "0"] in before and ["Uid:", "0", "0", "0", "0"] in before, f"the test's own: {before}")
        for number in range(t.rounds):
            running, _ = t.cycle(running, number)
            check(ids(program) == before, f"{name}: {before} before, {ids(program)} after restart {number + 1}")
        t.must("kill")
        running.exit_status()
