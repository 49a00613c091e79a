"""A virtual machine that boots a distribution's root with its own init from a disk, which stays when the machine goes: it is switched off, reboots,
or loses its power. Within it an agent does what it is told over a serial line."""
import os
import pathlib
import re
import shlex
import signal
import socket
import subprocess
import tempfile
import time

from kernels import MODULES, initramfs
from machine import accelerator

# With a machine that sees its disk as a PCI device; the rest is as in other machines.
DISK_MODULES = ["virtio_pci", "virtio_blk", "ext4", "crc32c_generic", "crc32c_intel"]
INIT = r"""#!/bin/busybox sh
b=/bin/busybox
$b mount -t proc proc /proc
$b mount -t sysfs sys /sys
$b mount -t devtmpfs dev /dev
for module in %(modules)s; do $b insmod /mods/$module 2>/dev/null; done
for i in $($b seq 100); do [ -b /dev/vda ] && break; $b sleep 0.1; done
$b mount -t ext4 /dev/vda /new || echo "MACHINE: no root"
for folder in proc sys dev; do $b umount /$folder; done
exec $b switch_root /new /sbin/init
"""
AGENT = r"""
import os, subprocess, tty
line = os.open("/dev/ttyS1", os.O_RDWR | os.O_NOCTTY)
tty.setraw(line)
os.write(line, b"AGENT\n")
for command in os.fdopen(os.dup(line)):
    done = subprocess.run(["bash", "-c", bytes.fromhex(command).decode()], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    os.write(line, b"%d %s\n" % (done.returncode, done.stdout.hex().encode()))
"""
AGENT_UNIT = """[Unit]
Description=does what it is told
DefaultDependencies=no
After=local-fs.target
[Service]
ExecStart=/usr/bin/python3 /usr/local/sbin/agent
StandardOutput=null
[Install]
WantedBy=multi-user.target
"""


def make_disk(root, path, prepare, mib=1536):
    """An ext4 file system at `path` with what is in the folder `root`; prepare(FOLDER) changes a copy of it first."""
    with tempfile.TemporaryDirectory(prefix="cairn-disk-", dir=os.path.dirname(path)) as folder:
        copy = os.path.join(folder, "root")
        subprocess.run(["cp", "-a", root, copy], check=True)
        agent = pathlib.Path(copy, "usr/local/sbin/agent")
        agent.write_text(AGENT)
        unit = pathlib.Path(copy, "etc/systemd/system/agent.service")
        unit.write_text(AGENT_UNIT)
        # Nobody logs in, and nothing is to be fetched.
        systemd = ["chroot", copy, "systemctl"]
        subprocess.run([*systemd, "-q", "enable", "agent"], check=True)
        subprocess.run([*systemd, "-q", "mask", "getty.target", "serial-getty@ttyS0.service", "apt-daily.timer", "apt-daily-upgrade.timer", "e2scrub_all.timer",
                        "e2scrub_reap.service", "systemd-timesyncd.service"], check=True)
        prepare(pathlib.Path(copy))
        with open(path, "wb") as file:
            file.truncate(mib << 20)
        subprocess.run(["mkfs.ext4", "-q", "-F", "-d", copy, path], check=True)


class Booted:
    """`disk`: of make_disk(). A machine has one kernel from boot to boot; boot() may be given another one each time."""

    def __init__(self, disk, log, memory_mib=1536, kvm=False):
        self.disk, self.log, self.memory, self.kvm = disk, log, memory_mib, kvm
        self.slow = 1 if kvm else 8
        self.process = self.line = None
        self.folder = os.path.dirname(os.path.abspath(disk))

    def boot(self, kernel):
        image, path = os.path.join(self.folder, "initramfs"), os.path.join(self.folder, "line")
        with open(image, "wb") as file:
            file.write(initramfs(kernel, lambda modules: INIT % {"modules": " ".join(map(shlex.quote, modules))}, DISK_MODULES + MODULES))
        self.log_begin = os.path.getsize(self.log) if os.path.exists(self.log) else 0
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(
                ["qemu-system-x86_64", *accelerator(self.kvm), "-smp", "2", "-m", str(self.memory), "-display", "none", "-no-reboot", "-nic", "none",
                 "-kernel", kernel.image, "-initrd", image, "-append", "console=ttyS0 panic=-1 loglevel=4 no_timer_check systemd.show_status=1",
                 "-drive", f"file={self.disk},if=virtio,format=raw,cache=writeback", "-serial", "stdio", "-serial", f"unix:{path},server=on,wait=off"],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        self.line = socket.socket(socket.AF_UNIX)
        for _ in range(100):
            try:
                self.line.connect(path)
                break
            except OSError:
                time.sleep(0.1)
        self.received = b""
        self._line_until(b"AGENT", 60 * self.slow)

    def _line_until(self, begin, timeout):
        """The next line that begins so."""
        limit = time.monotonic() + timeout
        while True:
            while b"\n" in self.received:
                line, _, self.received = self.received.partition(b"\n")
                line = line.strip(b"\r\0")
                if re.match(begin, line):
                    return line
            self.line.settimeout(max(0.1, limit - time.monotonic()))
            try:
                data = self.line.recv(65536)
            except TimeoutError:
                data = b""
            if not data:
                raise RuntimeError(f"the machine says nothing more (waited for {begin!r} for {timeout} s); its console is in {self.log}")
            self.received += data

    def run(self, command, timeout=60):
        """(exit status, what it printed)."""
        self.line.sendall(command.encode().hex().encode() + b"\n")
        code, _, said = self._line_until(rb"\d+ ", timeout * self.slow).partition(b" ")
        return int(code), bytes.fromhex(said.decode()).decode(errors="replace")

    def must(self, command, timeout=60):
        code, said = self.run(command, timeout)
        if code != 0:
            raise RuntimeError(f"'{command}' ended with {code}: {said[-3000:]}")
        return said

    def begin(self, command):
        """Doesn't wait for its end."""
        self.must(f"setsid bash -c {shlex.quote(command)} >/dev/null 2>&1 </dev/null &")

    def emulator_failed(self):
        """Whether the machine isn't one any more since it was booted: QEMU's emulation of iretq at user level has killed threads."""
        with open(self.log, "rb") as log:
            log.seek(self.log_begin)
            return b"supervisor read access in user mode" in log.read()

    def await_off(self, timeout=120):
        self.process.wait(timeout * self.slow)

    def pull_the_plug(self):
        """What the machine hasn't brought to its disk is gone: it was in its memory."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def close(self):
        if self.process is not None and self.process.poll() is None:
            self.pull_the_plug()
