"""Namespaces that others are in as well: who is outside of the computation and has gone into one of its own is noted, and one that lasts without it (ip-netns(8)) is refused by name."""
# ci: exact user
import os
import subprocess
from cairn_test import check

NEEDS = ["/usr/bin/nsenter", "/usr/bin/unshare"]


def test(t):
    program = t.launch(["unshare", "-ru", "bash", "-c", "echo $$ > pid; echo READY; exec sleep 1000"])
    program.expect("READY")
    with open(os.path.join(t.work, "pid")) as file:
        pid = int(file.read())
    visitor = subprocess.Popen(["nsenter", "-t", str(pid), "-U", "-u", "--preserve-credentials", "sh", "-c", "echo in; exec sleep 1000"],
                               stdout=subprocess.PIPE)
    try:
        check(visitor.stdout.read(2) == b"in", "nobody can go into the namespace")
        code, out, err = t.command("checkpoint")
        check(code == 0 and f"{visitor.pid} (sleep) is outside of the computation, and in a uts namespace of it" in out + err, out + err)
    finally:
        visitor.kill()
        visitor.wait()
    code, out, err = t.command("checkpoint")
    check(code == 0 and "is outside of the computation" not in out + err, out + err)
    t.must("kill")
    program.exit_status()
    t.programs.remove(program)
    if t.mode != "exact":  # only root makes a mounted one
        return
    name = f"cairn-test-{os.getpid()}"
    if subprocess.run(["ip", "netns", "add", name], stderr=subprocess.DEVNULL, check=False).returncode != 0:
        t.skip_part("a mounted one", "no network namespace can be made")
        return
    try:
        program = t.launch(["ip", "netns", "exec", name, "bash", "-c", "echo READY; exec sleep 1000"])
        program.expect("READY")
        code, out, err = t.command("checkpoint")
        check(code == 3 and f"is in the namespace /run/netns/{name}, which lasts without the computation" in err, out + err)
        t.must("kill")
        program.exit_status()
        t.programs.remove(program)
    finally:
        subprocess.run(["ip", "netns", "del", name], check=False)
