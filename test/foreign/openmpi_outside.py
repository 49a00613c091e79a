"""cairn inside mpirun: four Open MPI ranks, each launched for itself into one session, their launcher outside; the folder that
mpirun had for them has gone with it. In MPI_Init they aren't saved."""
# ci: none (its packages are heavy: where they are installed)
import os
from cairn_test import check
from cairn_test.mpi_outside import RanksOnTheirOwn


def is_connected(pid):
    """Over TCP, to anybody."""
    with open(f"/proc/{pid}/net/tcp") as file:
        established = {words[9] for words in map(str.split, file) if words[3] == "01"}
    folder = f"/proc/{pid}/fd"
    return any(os.readlink(os.path.join(folder, fd)).strip("socket:[]") in established for fd in os.listdir(folder))


def refused_in_init(t, ranks):
    begin = os.path.join(t.work, "begin")
    job = ranks.launch(20, [f"STENCIL_BEGIN={begin}"])
    t.wait_until(lambda: sum(is_connected(each.get("real", each["pid"])) for each in t.members()) == 3, "MPI_Init")
    code, _, err = t.command("checkpoint")
    check(code == 3 and "it is in MPI_Init" in err and "cairn launch mpirun" in err, f"{code}: {err}")
    with open(begin, "w"):
        pass
    job.expect_exit(0, 60)


def test(t):
    ranks = RanksOnTheirOwn(t, "openmpi")
    ranks.all_goes_well()
    refused_in_init(t, ranks)
