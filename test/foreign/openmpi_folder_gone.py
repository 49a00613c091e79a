"""An Open MPI job of four ranks under mpirun whose folder for temporary files goes with it each time, as by a reboot: what was in it comes back with the job."""
# ci: user
import os
import shutil
from cairn_test import Skip, check
from cairn_test.mpi import compiled, launchers_folder, transports

STEPS = "400"


def remove(folder):
    """mpirun's files; returns their names."""
    names = [name for _, _, found in os.walk(folder) for name in found]
    for name in os.listdir(folder):
        shutil.rmtree(os.path.join(folder, name))
    return names


def others_folder(t, name):
    """Where temporary files are anybody may make one, and what he puts there isn't taken for the job's."""
    os.mkdir(name)
    os.chmod(name, 0o777)
    code, _, err = t.command("restart", t.latest())
    check(code == 3 and f"{name} is an MPI launcher's folder" in err and "could be another's" in err, f"another's folder: {code}: {err}")
    os.rmdir(name)


def results(text):
    return sorted({line.strip() for line in text.decode().splitlines() if line.startswith("rank ")})


def test(t):
    program, starter = compiled(t, "openmpi")
    if program is None:
        raise Skip("no Open MPI")
    finish = os.path.join(t.work, "finish")
    for transport, arguments in transports(t, "openmpi").items():
        if transport != "default" and not t.soak:
            continue
        t.say(f"transport: {transport}")
        argv = [starter, *arguments, "-n", "4", program, STEPS]
        expected = results(t.native(argv)[0])
        job = t.launch(argv, env={"STENCIL_FINISH": finish})
        job.expect(r"step \d+:")
        shown = b""
        for number in range(t.rounds):
            t.checkpoint()
            terminal = job.terminal
            t.pull_the_plug(number % 2 == 1)
            shown += terminal.text
            folder = launchers_folder(t)
            name = os.path.join(folder, os.listdir(folder)[0])
            removed = remove(folder)
            check("hwloc.sm" in removed and "debugger_attach_fifo" in removed, f"nothing was there to be removed: {removed}")
            if number == 0:
                others_folder(t, name)
            job = t.restart(name=f"restart {number + 1}")
            t.say(f"round {number + 1}: checkpoint, kill -9, folder removed, restart")
        with open(finish, "w"):
            pass
        job.expect_exit(0, 120)
        found = results(shown + job.terminal.text)
        check(len(expected) == 4 and found == expected, f"{found}, and {expected} undisturbed")
        os.unlink(finish)
