"""An Open MPI job of four ranks under mpirun whose folder for temporary files goes with it each time, as by a reboot: what was in it comes back with the job."""
# ci: user
import os
import shutil
from cairn_test import check
from cairn_test.mpi import job, launchers_folder


def test(t):
    removed = []

    def remove():
        folder = launchers_folder(t)
        removed.extend(name for _, _, names in os.walk(folder) for name in names)
        for name in os.listdir(folder):
            shutil.rmtree(os.path.join(folder, name))

    t.between = remove
    job(t, "openmpi", only=None if t.soak else "default", before_checkpoint=lambda number, program: number or program.expect(r"step \d+:"))
    check("hwloc.sm" in removed and "debugger_attach_fifo" in removed, f"nothing was there to be removed: {removed}")
