"""A service of the machine's and one of a user's, of three programs each, go through reboots of a virtual machine: scripts/test --reboots [COUNT].

The machine is Debian 12 with systemd, on a disk of its own, under two of Debian's kernels by turns. Some reboots are asked for, and nothing may be lost then; at the others the machine
loses its power, now and then in the middle of a checkpoint, and what was done since the last checkpoint is done once more. After each of them every program
runs once, and what it has written is complete. The last line is "N passed, N failed"."""
import argparse
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

from booted import Booted, make_disk
from kernels import Kernel
from roots import Root

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
PACKAGES = ("systemd systemd-sysv dbus dbus-user-session libpam-systemd udev kmod procps iproute2 python3 redis-server libfmt9 "
            "libboost-program-options1.81.0 libsodium23 libedit2").split()
# What comes before each start of the machine but the first.
ENDS = ["reboot", "power", "reboot", "power in a checkpoint", "reboot", "poweroff", "power", "reboot", "power in a checkpoint", "reboot"]

# Counts in redis and in its own memory, which have to agree; each number is a line of a file that it keeps open.
COUNTER = r"""
import socket, sys, time
server = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
answers = server.makefile()
numbers = open("numbers", "a")
own = 0
while True:
    server.sendall(b"INCR counted\r\n")
    own += 1
    counted = answers.readline().strip()
    if counted != f":{own}":
        raise SystemExit(f"redis has counted {counted}, I have {own}")
    numbers.write(f"{own}\n")
    numbers.flush()
    if own % 20 == 0:
        print("counted", own, flush=True)
    time.sleep(0.1)
"""
# Opens its file anew for each line, and lets a child sleep.
SCRIPT = """i=0
while true; do
    i=$((i + 1))
    echo $i >>lines
    sleep 0.3
done
"""
CONFIGURATION = """# three programs
directory = %(folder)s
program = redis-server --port %(port)d --save '' --dir %(folder)s
program = bash -c "until redis-cli -p %(port)d ping >/dev/null 2>&1; do sleep 0.2; done; exec python3 -u /srv/counter.py %(port)d"
program = bash /srv/script.sh %(port)d
interval = %(interval)d
keep = 3
"""
USER, UID = "anna", 1000


class Service:
    """`name`: of the unit; `manager`: the command that asks the manager of its unit."""

    def __init__(self, name, port, folder, state, owner, manager):
        self.name, self.port, self.folder, self.state, self.owner, self.manager = name, port, folder, state, owner, manager
        self.backs = 0  # reboots at which the work since the last checkpoint was lost
        self.highest = 0

    def unit(self, verb):
        return f"{self.manager} {verb} cairn@{self.name}"

    def numbers(self, machine, file="numbers"):
        text = machine.must(f"cat {self.folder}/{file}")
        if file == "lines":
            # What was written after the last checkpoint before a loss of power may be zeros: ext4 has noted the file's new size, and not yet written what is in it.
            text = text.replace("\0", "")
        try:
            return [int(line) for line in text.split()]
        except ValueError:
            raise RuntimeError(f"{self.folder}/{file} has what no program has written: {text[-1000:]!r}") from None

    def saved(self, machine):
        """The newest generation that counts."""
        return int(machine.must(f"basename $(readlink {self.state}/latest)"))


SYSTEM = Service("shop", 7001, "/srv/shop", "/var/lib/cairn/shop", "root", "systemctl")
USERS = Service("notes", 7002, f"/home/{USER}/notes", f"/home/{USER}/.local/state/cairn/notes", USER,
                f"runuser -u {USER} -- env XDG_RUNTIME_DIR=/run/user/{UID} systemctl --user")
SERVICES = (SYSTEM, USERS)


def prepare(build, interval):
    def change(root):
        subprocess.run(["cmake", "--install", build, "--prefix", "/usr/local"], env=dict(os.environ, DESTDIR=str(root)), check=True, stdout=subprocess.DEVNULL)
        subprocess.run(["chroot", root, "useradd", "--create-home", "--uid", str(UID), "--shell", "/bin/bash", USER], check=True)
        subprocess.run(["chroot", root, "systemctl", "-q", "disable", "redis-server"], check=False)
        for path in ("var/log/journal", "var/lib/systemd/linger", "srv/shop", "etc/cairn/services", f"home/{USER}/notes", f"home/{USER}/.config/cairn/services"):
            (root / path).mkdir(parents=True, exist_ok=True)
        (root / "var/lib/systemd/linger" / USER).touch()
        (root / "srv/counter.py").write_text(COUNTER)
        (root / "srv/script.sh").write_text(SCRIPT)
        for service, folder in ((SYSTEM, "etc"), (USERS, f"home/{USER}/.config")):
            (root / folder / "cairn/services" / f"{service.name}.conf").write_text(
                CONFIGURATION % {"folder": service.folder, "port": service.port, "interval": interval})
        subprocess.run(["chroot", root, "chown", "-R", f"{USER}:{USER}", f"/home/{USER}"], check=True)
    return change


def await_service(machine, service, timeout=90):
    code, said = 1, ""
    limit = time.monotonic() + timeout * machine.slow
    while time.monotonic() < limit:
        code, said = machine.run(service.unit("is-active"))
        if said.strip() == "active":
            return
        if said.strip() == "failed":
            break
        time.sleep(1)
    raise RuntimeError(f"cairn@{service.name} is {said.strip()}:\n" + machine.run(f"journalctl -b -o cat --no-pager | grep -v audit | tail -n 60")[1])


def look(machine, service):
    """What is wrong with the service, "" if nothing."""
    await_service(machine, service)
    before = service.numbers(machine)[-1:] or [0]
    limit = time.monotonic() + 30 * machine.slow
    while (now := service.numbers(machine)[-1:] or [0]) <= [before[0] + 10]:
        if time.monotonic() > limit:
            return f"the counter stands still at {now[0]}: " + machine.run(service.unit("status"))[1]
        time.sleep(0.5)
    numbers, lines = service.numbers(machine), service.numbers(machine, "lines")
    # While a checkpoint is taken there is a copy of each program.
    while "cairn-capture" in (running := machine.must(f"ps -u {service.owner} -o pid=,ppid=,args=")) and time.monotonic() < limit:
        time.sleep(0.5)
    running = [line.split(None, 2) for line in running.splitlines()]
    for what in (f"redis-server .*:{service.port}", f"python3 -u /srv/counter.py {service.port}", f"bash /srv/script.sh {service.port}",
                 f"cairn-service run --\\w+ {service.name}"):
        found = {pid: parent for pid, parent, line in running if re.match(what, line)}
        # A shell that has just forked is there twice for a moment.
        if len([parent for parent in found.values() if parent not in found]) != 1:
            return f"of '{what}' there run {found}, of all {[one for one in running if not one[2].startswith('[')]}"
    if numbers != list(range(1, len(numbers) + 1)):
        odd = next(i for i, number in enumerate(numbers) if number != i + 1)
        return f"the numbers go ... {numbers[max(0, odd - 3):odd + 3]} ..."
    back = [(one, other) for one, other in zip(lines, lines[1:]) if other != one + 1]
    if len(back) > service.backs or any(other > one for one, other in back):
        return f"the lines go back {service.backs} times at most, and not: {back}"
    if numbers[-1] <= service.highest:
        return f"the counter is at {numbers[-1]}, and was saved at {service.highest}"
    if "counted" not in machine.must(f"journalctl -b -o cat --no-pager _UID={UID if service is USERS else 0} --grep counted || true"):
        return "what the counter prints isn't in the journal of this boot"
    return ""


def end(machine, how):
    """Lets the machine end; what was saved until then mustn't be lost."""
    for service in SERVICES:
        if how in ("reboot", "poweroff"):
            service.highest = service.numbers(machine)[-1]
        else:
            service.backs += 1
    if how in ("reboot", "poweroff"):
        machine.begin(f"sleep 0.5; systemctl {how}")
        machine.await_off()
        return
    if how == "power in a checkpoint":
        for service in SERVICES:
            machine.begin(service.unit("reload"))
        # Of the one or the other it is being written.
        begun = " ".join(f"{service.state}/*/*.partial" for service in SERVICES)
        machine.must(f"for i in $(seq 600); do ls -d {begun} 2>/dev/null | grep -q . && exit 0; sleep 0.05; done; exit 1")
    machine.pull_the_plug()


def first(machine):
    for service in SERVICES:
        machine.must(f"systemctl is-system-running --wait || true; {service.unit('enable --now')}", 120)


def live(machine, kernel, is_first, following):
    """From one boot to the next: (what is wrong, what there was to be seen)."""
    began = time.monotonic()
    machine.boot(kernel)
    if is_first:
        first(machine)
    problems = [f"{service.name}: {problem}" for service in SERVICES if (problem := look(machine, service))]
    said = ", ".join(f"{service.name} at {service.numbers(machine)[-1]}, generation {service.saved(machine)}" for service in SERVICES)
    said += f" ({time.monotonic() - began:.0f} s)"
    if following and not problems:
        end(machine, following)
    return "; ".join(problems), said


def life(machine, kernel, is_first, following):
    """As live(). Where the emulator has failed it is lived once more, from the same disk."""
    while True:
        subprocess.run(["cp", "--sparse=always", machine.disk, machine.disk + ".before"], check=True)
        before = [(service.backs, service.highest) for service in SERVICES]
        try:
            found = live(machine, kernel, is_first, following)
        except (RuntimeError, subprocess.TimeoutExpired) as problem:
            found = str(problem), "no more"
        if not machine.emulator_failed():
            return found
        print(f"the emulator has failed, and this boot is tried again ({found})", flush=True)
        machine.close()
        os.rename(machine.disk + ".before", machine.disk)
        for service, (backs, highest) in zip(SERVICES, before):
            service.backs, service.highest = backs, highest


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("count", nargs="?", type=int, default=len(ENDS), help="reboots")
    parser.add_argument("--build", default=ROOT / "build" / "release", type=pathlib.Path)
    parser.add_argument("--kernels", default="bookworm,trixie", help="by turns")
    parser.add_argument("--interval", default=20, type=int, help="seconds between two checkpoints")
    parser.add_argument("--kvm", action="store_true", help="by KVM, where it works; else emulated")
    parser.add_argument("--keep", action="store_true", help="leave the disk and the console's log")
    arguments = parser.parse_args()
    missing = [tool for tool in ("qemu-system-x86_64", "busybox", "depmod", "debootstrap", "mkfs.ext4") if shutil.which(tool) is None]
    if missing:
        sys.exit(f"reboots: {' '.join(missing)}: not installed; apt-get install qemu-system-x86 busybox-static kmod debootstrap e2fsprogs")
    build = arguments.build.resolve()
    kernels = [Kernel(name, build.parent / "kernels") for name in arguments.kernels.split(",")]
    root = Root("bookworm", build.parent / "roots", "-services", PACKAGES)
    folder = tempfile.mkdtemp(prefix="cairn-reboots-", dir=build.parent)
    disk, log = os.path.join(folder, "disk"), os.path.join(folder, "console")
    make_disk(root.path, disk, prepare(build, arguments.interval))
    machine = Booted(disk, log, kvm=arguments.kvm)
    ways = (ENDS * (arguments.count // len(ENDS) + 1))[:arguments.count]
    passed, failed, how = 0, 0, "the first"
    try:
        for number, following in enumerate([*ways, None]):
            kernel = kernels[number % len(kernels)]
            problem, said = life(machine, kernel, number == 0, following)
            passed, failed = passed + (not problem), failed + bool(problem)
            print(f"boot {number} ({how}; {kernel.version}): {'FAILED: ' + problem if problem else 'passed'}: {said}", flush=True)
            how = following
            if problem:
                break
    finally:
        machine.close()
        if not arguments.keep and not failed:
            shutil.rmtree(folder)
        else:
            print(f"the disk and what the console said are in {folder}")
    print(f"{passed} passed, {failed} failed")
    sys.exit(1 if failed else 0)


main()
