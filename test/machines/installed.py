"""Debian packages of cairn in a root of their own: what is tried there, by test/packages/ (packed from the build that is there) and by
test/machines/packages.py (compiled with Debian's flags)."""
import os
import pathlib
import subprocess

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent

# In a clean root, in which all that is written goes to memory. $1: the folder with the packages.
TRY = r"""
set -euo pipefail
trap 'echo "FAILED in line $LINENO: $BASH_COMMAND"' ERR
packages=$1
export DEBIAN_FRONTEND=noninteractive
user="setpriv --reuid=4711 --regid=4711 --clear-groups --inh-caps=-all --bounding-set=-all env HOME=/tmp"
# What apt and dpkg keep of their own work aside.
list() {
    find / -xdev \( -path /var/lib/apt -o -path /var/lib/dpkg -o -path /var/cache -o -path /var/log \) -prune -o -printf '%M %U %G %l %p\n' | sort
    find /tmp /dev/shm -mindepth 1 ! -path "$packages*" ! -path /tmp/listed.\* | sort
    dpkg -l
}
apt() { apt-get -q -y --no-install-recommends "$@" >/tmp/listed.apt 2>&1 || { cat /tmp/listed.apt; return 1; }; }
soon() {
    local tries
    for ((tries = 0; tries < 200; tries++)); do
        ! "$@" || return 0
        sleep 0.1
    done
    echo "not so within 20 s: $*"
    return 1
}

list >/tmp/listed.before
apt install "$packages"/cairn_*.deb
echo "INSTALLED $(dpkg-query -W -f '${Package} ${Version}' cairn)"
cairn --version
test -e /usr/share/man/man1/cairn.1.gz
test -e /usr/share/doc/cairn/docs/using.md

# Who calls for what is in a package of its own is told which.
status=0
said=$(cairn mpi check /tmp 2>&1) || status=$?
test "$status" = 1
grep -q 'package cairn-mpi' <<<"$said"
# They could be installed beside it.
apt install --simulate "$packages"/cairn-mpi_*.deb "$packages"/cairn-slurm_*.deb

# As an ordinary user, with what the package has: its demo, and what the doctor says.
$user /usr/share/doc/cairn/examples/demo --installed
$user cairn doctor --timeout 30 --ckptdir /tmp >/tmp/listed.doctor || { cat /tmp/listed.doctor; false; }
tail -n 1 /tmp/listed.doctor
rm -rf /tmp/cairn-4711

# A job outlives an upgrade: its library is another file afterwards, and so are the tools that save it and bring it back.
mkdir /tmp/job
chown 4711 /tmp/job
cd /tmp/job
run() { $user CAIRN_RUNDIR=/tmp/job/run "$@"; }
cat >/tmp/job/count.py <<'PYTHON'
import time
for number in range(100000):
    print(number, flush=True)
    time.sleep(0.05)
PYTHON
passes() { [[ $(tail -n 1 said 2>/dev/null) -gt $1 ]]; }
run sh -c 'exec cairn launch --ckptdir ckpt python3 count.py >said 2>launch.log' &
soon passes 10
before=$(stat -c %i /usr/lib/cairn/libcairn.so)
apt install --reinstall "$packages"/cairn_*.deb
test "$(stat -c %i /usr/lib/cairn/libcairn.so)" != "$before"
run cairn checkpoint --kill
wait
last=$(tail -n 1 said)
run sh -c 'exec ckpt/restart.sh >restart.log 2>&1' &
soon passes $((last + 10)) || { cat restart.log; false; }
run cairn kill
run cairn quit
wait 2>/dev/null || true
seq 0 "$(sort -n said | tail -n 1)" | diff - <(sort -nu said)
cd /
rm -r /tmp/job
echo "UPGRADED under a job, which went on from $last"

apt purge --auto-remove cairn
list >/tmp/listed.after
diff /tmp/listed.before /tmp/listed.after
echo "NOTHING LEFT of $(wc -l </tmp/listed.before) lines"
"""


def built(out, *options):
    """scripts/package; gives the folder with the packages."""
    # Hardly compressed: they are unpacked once, here.
    done = subprocess.run([ROOT / "scripts/package", "--no-setup", "--out", out, *options], env=dict(os.environ, DPKG_DEB_COMPRESSOR_LEVEL="1"),
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"scripts/package: {done.stdout[-5000:]}")
    return pathlib.Path(out)


def lint(packages):
    """What lintian has against them: errors and warnings."""
    done = subprocess.run(["lintian", "--allow-root", "--tag-display-limit", "0", "--fail-on", "error,warning", *packages.glob("*.changes")], stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    return "" if done.returncode == 0 else done.stdout


def library(packages, build):
    """What the preloaded library is after the packager's strip, judged as hijack.symbols judges the one of the build."""
    unpacked = packages / "unpacked"
    subprocess.run(["dpkg-deb", "-x", next(packages.glob("cairn_*.deb")), unpacked], check=True)
    done = subprocess.run([ROOT / "test/hijack/symbols.sh", unpacked / "usr/lib/cairn/libcairn.so", ROOT / "hijack/wrapped.inc", ROOT / "docs/hijack.md",
                           pathlib.Path(build) / "hijack/CMakeFiles/cairn_hijack.dir/agent/agent.cpp.o"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    return "" if done.returncode == 0 else done.stdout


def tried(root, packages):
    """(what went wrong in the clean root, what was said there)."""
    status, said = root.run(["bash", "-c", TRY, "try", str(packages)], [f"ro:{packages}"], timeout=400, network=True)
    return ("" if status == 0 and "NOTHING LEFT" in said else f"ended with {status}"), said
