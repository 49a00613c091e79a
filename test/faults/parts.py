"""Two programs on two terminals are one group; its parts are restarted one by one, each on a terminal of its own; the
barrier holds the early one, and --wait gives up."""
# ci: exact
import os
import json
import signal
from cairn_test import check, processes
from cairn_test.ticking import Ticking


def pythons():
    return [pid for pid in processes.descendants() if "python3" in processes.command_line(pid)]


def test(t):
    first = Ticking(t, name="first", children=1)
    second = Ticking(t, name="second", children=1)
    t.checkpoint()
    t.pull_the_plug()
    script = os.path.join(t.ckptdir, "restart.sh")
    code, out, err = t.run([script, "--list"])
    check(code == 0 and "/dev/pts/" in out and len([line for line in out.splitlines() if "/dev/pts/" in line]) == 2,
          f"restart.sh --list: {code} {out} {err}")
    t.say(out.strip())

    with open(os.path.join(t.latest(), "manifest.json")) as file:
        manifest = json.load(file)
    manifest = manifest.get("manifest", manifest)
    numbers = [part["number"] for part in manifest["parts"]]
    check(len(numbers) == 2, f"parts: {manifest['parts']}")
    before, before_second = first.counts(), second.counts()
    # Half of the parts never come.
    code, out, err = t.run([script, "--part", str(numbers[0]), "--wait", "1", f"--ids={t.ids}"], timeout=30)
    check(code == 6, f"--wait 1 with one part missing ended with {code}: {err or out}")
    check(str(numbers[1]) in err or "second" in err or "/dev/pts/" in err, f"the message does not say who is missing: {err}")
    t.say(err.strip())
    check(not pythons(), f"given up, but {pythons()} run")
    check(first.counts() == before, "the early part ran ahead of the barrier")
    # The coordinator dies while the early part waits: it gives up, and nothing of it runs.
    early = t.restart("--part", str(numbers[0]), wait=False, name="part 1")
    t.wait_until(lambda: (t.status() or {}).get("state") == "restarting", "the restart to be pending")
    coordinator = t.coordinator_pid()
    os.kill(coordinator, signal.SIGKILL)
    code = os.waitstatus_to_exitcode(early.exit_status(30))
    check(code not in (0, 127), f"the coordinator of a pending restart died, and it ended with {code}")
    t.say(f"coordinator killed: exit code {code}{t.text_of(early)}")
    t.programs.remove(early)
    t.wait_until(lambda: not pythons(), "the early part to be gone")
    check(first.counts() == before, "the early part ran ahead of the barrier")
    # The early one is held until the other comes; both on terminals of their own.
    early = t.restart("--part", str(numbers[0]), wait=False, name="part 1")
    t.sleep(1.0)
    check(first.counts() == before and second.counts() == before_second, "the early part ran ahead of the barrier")
    # While it is pending, nobody else gets in: not the same part again, no program without a computation; and there is
    # nothing to save yet.
    for what, command, words in (
            ("the same part again", [script, "--part", str(numbers[0]), f"--ids={t.ids}"], []),
            ("a new program", [t.cairn, "launch", "--", "/bin/true"], ["restart"]),
            ("a checkpoint", [t.cairn, "checkpoint"], ["restart is pending"])):
        code, out, err = t.run(command, timeout=30)
        check(code == 3, f"{what} while a restart is pending ended with {code}: {err or out}")
        check(all(word in err for word in words), f"{what} while a restart is pending: {err}")
        t.say(f"{what}: {err.strip()}")
    late = t.restart("--part", str(numbers[1]), wait=False, name="part 2")
    first.all_tick("after both parts came")
    second.all_tick("after both parts came")
    terminals = {member["terminal"] for member in t.members()}
    check(terminals == {early.terminal.path, late.terminal.path}, f"terminals: {terminals}, "
          f"{early.terminal.path} and {late.terminal.path} were expected")
    # A whole restart from one terminal works as well.
    t.checkpoint()
    t.pull_the_plug()
    t.restart()
    first.all_tick("after a restart of all parts at once")
    second.all_tick("after a restart of all parts at once")
