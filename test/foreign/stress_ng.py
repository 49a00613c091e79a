"""stress-ng's stressors, each checkpointed in the middle, killed and restarted; it has to end as it does undisturbed.

Without names: those that are known to pass (stress_ng.txt). With names: these; `survey` takes all that are harmless and prints a line for
each, of which docs/stress-ng.md is made."""
# ci: none (229 stressors, some seconds each)
# timeout: 3600
import os
import re
import shutil
import signal
from cairn_test import Failure, Skip, check, processes

LIST = os.path.join(os.path.dirname(os.path.abspath(__file__)), "stress_ng.txt")
# They take the machine's memory or processors from everybody, or change it.
HARMFUL = {"bigheap", "brk", "stack", "oom-pipe", "resources", "lockbus", "softlockup", "cpu-online", "reboot", "smi", "memhotplug",
           "swap", "pageswap", "physpage", "sysinval", "watchdog", "cyclic", "race-sched", "klog", "udp-flood", "icmp-flood"}


def last_line(text):
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    lines = [line for line in lines if "fail:" in line] or lines
    return lines[-1] if lines else ""


def command(name, seconds):
    return ["stress-ng", f"--{name}", "1", "--timeout", f"{seconds}s", "--temp-path", ".", "--no-rand-seed"]


def attempt(t, name):
    """None if it passed, else what happened."""
    for entry in os.scandir(t.work):
        shutil.rmtree(entry.path, ignore_errors=True) if entry.is_dir(follow_symlinks=False) else os.unlink(entry.path)
    program = t.launch(command(name, 4), name=name)
    try:
        t.wait_until(lambda: processes.status_of(program.pid) is not None or t.has_members(2), "its processes", 15)
        t.sleep(1.0)
        if processes.status_of(program.pid) is not None:
            program.terminal.drain()
            return f"ended at once: {last_line(program.terminal.text.decode(errors='replace'))}"
        # Files come and go in its working folder: what is done after the checkpoint stays done.
        code, out, err = t.command("checkpoint", "--kill", timeout=60)
        if code != 0:
            return f"checkpoint: {last_line(err)}"
        t.pull_the_plug(True)
        program = t.restart(name=name)
        status = program.exit_status(40)
        if status != 0:
            return (f"after the restart: {processes.describe_status(status)}: "
                    f"{last_line(program.terminal.text.decode(errors='replace'))}")
    except Failure as failure:
        text = str(failure)
        found = re.search(r"^cairn[^\n]*: .*$", text, re.M)
        failed = re.search(r"fail: .*$", text, re.M)
        return f"{text.splitlines()[0]}{': ' + (failed or found)[0] if failed or found else ''}"
    return None


def test(t):
    if not shutil.which("stress-ng"):
        raise Skip("stress-ng isn't installed")
    # Some stressors send it to their parent without looking whether he is still the one that they had.
    signal.signal(signal.SIGALRM, lambda *_: None)
    names, survey = t.arguments.names, False
    if names[:1] == ["survey"]:
        code, out, err = t.run(["stress-ng", "--stressors"])
        names, survey = sorted(set(out.split()) - HARMFUL), True
        if len(t.arguments.names) == 2:  # one of so many shares: 0/3
            share, shares = map(int, t.arguments.names[1].split("/"))
            names = names[share::shares]
    elif not names:
        with open(LIST) as file:
            names = file.read().split()
    failed = []
    for name in names:
        problem = attempt(t, name)
        t.pull_the_plug()
        if problem:
            text, status, _ = t.native(command(name, 1), timeout=60)
            if status != 0:
                problem = f"undisturbed as well: {processes.describe_status(status)}"
        t.say(f"{name}: {problem or 'passed'}")
        if problem:
            failed.append(name)
    check(names, f"{LIST} names no stressor")
    if failed and not survey:
        raise Failure(f"these failed: {' '.join(failed)}")
