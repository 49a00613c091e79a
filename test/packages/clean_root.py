"""The Debian packages, packed from this build: lintian has nothing against them, and in a clean root of this distribution `cairn` is
installed, runs its demo as an ordinary user, is upgraded under a job, and leaves nothing behind when it is purged."""
# ci: exact
# timeout: 900
import pathlib
import shutil
import sys
import urllib.error
import urllib.request
from cairn_test import Failure, Skip, check

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "machines"))
import installed
from roots import ARCHIVE, CleanRoot


def test(t):
    for tool in ("dh", "lintian", "mmdebstrap"):
        if shutil.which(tool) is None:
            raise Skip(f"{tool} isn't installed: scripts/setup")
    build = pathlib.Path(t.build)
    if not (build / "lib/cairn_spank.so").exists() or len(list((build / "lib").glob("libcairn-mpi-*.so"))) < 3:
        raise Skip("this build is without one of the two MPIs, or without Slurm's plugin")
    name = next(line.split("=")[1].strip() for line in open("/etc/os-release") if line.startswith("VERSION_CODENAME="))
    try:
        urllib.request.urlopen(f"{ARCHIVE}/dists/{name}/Release", timeout=20).close()
    except (urllib.error.URLError, OSError) as problem:
        raise Skip(f"Debian's archive can't be reached: {problem}") from None
    packages = installed.built(f"{t.work}/packages", "--built", str(build))
    for problem in (installed.lint(packages), installed.library(packages, build)):
        check(not problem, problem)
    # The job wants a Python, as jobs do.
    problem, said = installed.tried(CleanRoot(name, f"{t.work}/root", ["python3"]), packages)
    print(said)
    if problem:
        raise Failure(problem)
