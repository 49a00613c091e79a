"""The restart ends as the first process of the computation does, though pids have wrapped around since and a child's is
lower."""
from cairn_test import check


def test(t):
    if t.mode == "userns":  # a pid namespace of its own: nobody else is disturbed
        with open("/proc/sys/kernel/pid_max") as file:
            last = int(file.read()) - 2
    shell = None
    for number in range(t.rounds):
        if shell is None:
            if t.mode == "userns":
                t.must("coordinator", "--daemon")
                with open("/proc/sys/kernel/ns_last_pid", "w") as file:
                    file.write(str(last))
            shell = t.launch(["bash", "-c", "sleep 1000 & sleep 2000 & echo up; read answer; kill $!; wait $!; exit $answer"])
            shell.expect(r"up\r?\n")
            t.wait_members(3)
            pids = [member["pid"] for member in t.members()]
            check(t.mode != "userns" or min(pids) < shell.pid, f"pids have not wrapped around: {pids}")
        shell, _ = t.cycle(shell, number)
    shell.send("7\n")
    shell.expect_exit(7)
