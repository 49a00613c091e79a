"""Memory of hugetlb pages that is private, of a System V segment or of files on hugetlbfs, from a pool that root keeps filled
meanwhile; in every second round the program goes on after the checkpoint before it is killed."""
# ci: exact user
# serial: the machine's pool: an MPICH job beside it takes what there is
import os
import subprocess
import tempfile
from cairn_test import huge_pool
from cairn_test.serving import ask, begin, finish

FOLDER = "CAIRN_TEST_HUGETLBFS"


def with_a_file_system():
    """Runs this test again, beside a hugetlbfs that everybody may write to."""
    with tempfile.TemporaryDirectory(prefix="cairn-huge-") as folder:
        os.chmod(folder, 0o755)
        mounted = subprocess.run(["mount", "-t", "hugetlbfs", "-o", "pagesize=2M,mode=1777", "none", folder], check=False)
        try:
            own = {FOLDER: folder} if mounted.returncode == 0 else {}
            huge_pool.keep_pool(needed=30, wanted=40, **own)
        finally:
            if mounted.returncode == 0:
                subprocess.run(["umount", "-l", folder], check=False)


def test(t):
    program = begin(t, "huge_private")
    for count in range(t.rounds):
        if count % 2 == 0:
            program, _ = t.cycle(program, count)
        else:
            t.checkpoint()
            ask(t, program, f"{count} of who goes on")
            t.pull_the_plug(False)
            program = t.restart(name=f"restart {count + 1}")
        ask(t, program, count)
    finish(t, program)


if os.getuid() == 0 and huge_pool.KEPT not in os.environ:
    with_a_file_system()
