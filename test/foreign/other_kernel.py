"""An update of the kernel and a reboot: a job of python3 with numpy and threads is saved here, a virtual machine boots Debian 12's own kernel (by
qemu, emulated) with this root file system, and the job goes on in it, to the same numbers as without an interruption. The emulated
processor has less than most: the job is kept to x86-64-v2."""
# ci: exact
# root: what runs in the machine is root's
# timeout: 900
import os
import shutil
import sys
from urllib.error import URLError
from cairn_test import Skip, check
sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "machines"))
import around
from kernels import Kernel
from machine import Machine
TOOLS = ("qemu-system-x86_64", "busybox", "depmod")


def test(t):
    missing = [each for each in TOOLS if shutil.which(each, path=os.environ["PATH"] + ":/usr/sbin:/sbin") is None]
    if missing or t.mode not in ("exact", "virtual"):
        raise Skip(f"{' '.join(missing)}: not installed" if missing else "what runs in the machine is root's")
    around.prepare(t.work, ["python"])
    t.launch(["/bin/bash", "-c", "cd python && exec /usr/bin/python3 job.py >>out"], options=["--cpu=x86-64-v2"], name="job")
    t.wait_until(lambda: len(lines(t)) >= 10, "ten steps here")
    saved = t.checkpoint()
    t.pull_the_plug()
    # Of /tmp the machine sees this folder only.
    shutil.copytree(saved, os.path.join(t.work, "saved"))
    here = len(lines(t))
    try:
        kernel = Kernel("bookworm", os.path.join(t.build, "..", "kernels"))
    except URLError as problem:
        raise Skip(f"Debian's kernel can't be fetched: {problem}") from problem
    status, said = Machine(kernel, t.work).run(around.HEAD % {"build": t.build, "shared": t.work} + f"""
(setsid saved/restart.sh --ids=virtual </dev/null >>restarted 2>&1 &)
await 'on .generation|cairn restart:' restarted
grep -q 'cairn restart:' restarted && {{ cat restarted; exit 1; }}
for i in $(seq 300); do [ "$(tail -n 1 python/out | cut -d ' ' -f 1)" -ge {here + 10} ] && break; sleep 0.3; done
cat restarted
"$bin/cairn" kill
""", timeout=600)
    check(status == 0, f"under {kernel.version}: {said}")
    check(len(lines(t)) >= here + 10, f"{len(lines(t))} lines, {here} of them from here: {said}")
    problem = around.compare("python", t.work, t.folder)
    check(not problem, problem)
    t.say(f"{here} steps here, and up to {lines(t)[-1].split()[0]} under {kernel.version}")


def lines(t):
    path = os.path.join(t.work, "python", "out")
    return around.lines_of(os.path.dirname(path), "python") if os.path.exists(path) else []
