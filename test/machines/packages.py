"""Makes the Debian packages with all of Debian's flags, and tries them: scripts/test --packages.

lintian has nothing against them. The preloaded library is still what docs/hijack.md promises. In a clean root of this distribution cairn is installed,
used by an ordinary user, upgraded under a job and purged. autopkgtest runs the packages' own tests (packaging/debian/tests) in another root,
into which it installs them and what they want. The last line is "N passed, N failed"."""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

import installed
from roots import CleanRoot

# autopkgtest keeps what it knows of the root in it. In a mount namespace of its own, so that nothing stays mounted.
AUTOPKGTEST = r"""
set -e
mount --make-rprivate /
mount --bind "$1" "$1"
mount -t proc proc "$1/proc"
mount --rbind /dev "$1/dev"
mount --rbind /sys "$1/sys"
mount -t tmpfs -o mode=1777 shm "$1/dev/shm"
exec autopkgtest --no-built-binaries "$2"/*.deb "$2"/cairn-*/ -- chroot "$1"
"""


def run_own_tests(root, packages):
    done = subprocess.run(["unshare", "--mount", "--pid", "--fork", "--kill-child", "bash", "-c", AUTOPKGTEST, "autopkgtest", root.path, packages],
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=1800)
    print(done.stdout)
    passed = {line.split()[0] for line in done.stdout.splitlines() if line.split()[1:] == ["PASS"]}
    return "" if done.returncode == 0 and passed == {"demo", "record-replay"} else f"autopkgtest ended with {done.returncode}, passed: {passed}"


def tried(root, packages):
    problem, said = installed.tried(root, packages)
    print(said)
    return problem


def main():
    missing = [tool for tool in ("dh", "lintian", "mmdebstrap", "autopkgtest") if shutil.which(tool) is None]
    if missing or os.getuid() != 0:
        sys.exit(f"packages: {' '.join(missing)}: not installed; scripts/setup && apt-get install autopkgtest" if missing else "packages: only root makes a root file system")
    name = next(line.split("=")[1].strip() for line in open("/etc/os-release") if line.startswith("VERSION_CODENAME="))
    failed = passed = 0
    packages = installed.ROOT / "build/packages"
    with tempfile.TemporaryDirectory(prefix="cairn-packages-") as folder:
        os.chmod(folder, 0o755)
        tries = {
            "built": lambda: installed.built(packages) and "",
            "lintian": lambda: installed.lint(packages),
            "preloaded library": lambda: installed.library(packages, next(packages.glob("cairn-*/obj-*"))),
            "clean root": lambda: tried(CleanRoot(name, f"{folder}/clean", ["python3"]), packages),
            "own tests": lambda: run_own_tests(CleanRoot(name, f"{folder}/own", ["dpkg-dev"]), packages),
        }
        for what, attempt in tries.items():
            began = time.monotonic()
            problem = attempt()
            print(f"{name}: {what}: {'FAILED: ' + problem if problem else 'passed'} ({time.monotonic() - began:.0f} s)", flush=True)
            passed, failed = passed + (not problem), failed + bool(problem)
    print(f"{passed} passed, {failed} failed")
    sys.exit(1 if failed else 0)


main()
