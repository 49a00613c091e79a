"""A virtual machine with one of Debian's kernels and this machine's root file system, or another one: what it writes there goes to its memory,
but for one folder that it shares with this machine. It runs one command as root, and is off."""
import os
import pathlib
import re
import shlex
import subprocess
import tempfile

from kernels import initramfs

INIT = r"""#!/bin/busybox sh
b=/bin/busybox
$b mount -t proc proc /proc
$b mount -t sysfs sys /sys
$b mount -t devtmpfs dev /dev
for module in %(modules)s; do $b insmod /mods/$module 2>/dev/null; done
$b mount -t 9p -o trans=virtio,version=9p2000.L,ro,msize=524288,cache=loose root /lower || echo "MACHINE: no root"
$b mount -t tmpfs -o size=50%% tmp /upper
$b mkdir /upper/upper /upper/work
$b mount -t overlay -o lowerdir=/lower,upperdir=/upper/upper,workdir=/upper/work overlay /new || echo "MACHINE: no overlay"
$b mount -t proc proc /new/proc
$b mount -t sysfs sys /new/sys
$b mount -t devtmpfs dev /new/dev
$b mkdir -p /new/dev/pts /new/dev/shm /new/dev/mqueue
$b mount -t devpts -o gid=5,mode=620,ptmxmode=666 pts /new/dev/pts
for folder in /new/dev/shm /new/tmp; do $b mount -t tmpfs -o mode=1777,size=50%% tmp $folder; done
$b mount -t tmpfs run /new/run
$b mount -t mqueue mqueue /new/dev/mqueue
$b mkdir -p /new%(shared)s
$b mount -t 9p -o trans=virtio,version=9p2000.L,msize=524288,cache=none shared /new%(shared)s || echo "MACHINE: no shared folder"
$b ip link set lo up
$b hostname machine
echo "MACHINE: runs $($b uname -r)"
$b chroot /new /usr/bin/setsid -w /bin/bash %(script)s </dev/null
echo "MACHINE: ended with $?"
$b sync
echo o >/proc/sysrq-trigger
$b sleep 60
"""
ENVIRONMENT = "export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8\nulimit -n 20000\ncd /tmp\n"


def accelerator(kvm):
    # QEMU 7.2 lets an iretq at user level read the stack as the kernel does, which SMAP forbids: the guest's kernel kills the thread.
    # Registers of MPX, which no processor has any more, take more room than all others have of one without AVX-512: a job that is kept to
    # x86-64-v2 on such a one, and so stores registers by XSAVE, couldn't go on here (common/linker_room.h).
    return ["-accel", "kvm", "-cpu", "host"] if kvm else ["-accel", "tcg,thread=multi", "-cpu", "max,smap=off,mpx=off"]


class Machine:
    """`shared`: a folder of this machine, at the same path there. `root`: whose files it has. `slow`: how much slower it is than this one, for
    time limits."""

    def __init__(self, kernel, shared, memory_mib=4096, kvm=False, root="/"):
        self.kernel, self.shared, self.memory, self.kvm, self.root = kernel, pathlib.Path(shared), memory_mib, kvm, root
        self.slow = 1 if kvm else 8

    def run(self, command, timeout=600):
        """(exit status, what it printed); the status is None where the machine didn't come so far."""
        with tempfile.TemporaryDirectory(prefix="cairn-machine-") as folder:
            script = self.shared / "command"
            script.write_text(ENVIRONMENT + command + "\n")
            image = os.path.join(folder, "initramfs")
            with open(image, "wb") as file:
                file.write(initramfs(self.kernel, lambda modules: INIT % {
                    "modules": " ".join(modules), "shared": self.shared, "script": shlex.quote(str(script))}))
            # readonly: the root is this machine's own.
            arguments = ["qemu-system-x86_64", *accelerator(self.kvm), "-smp", "2", "-m", str(self.memory), "-nographic", "-no-reboot", "-nic", "none",
                         "-kernel", self.kernel.image, "-initrd", image, "-append", "console=ttyS0 panic=-1 loglevel=4 no_timer_check",
                         "-virtfs", f"local,path={self.root},mount_tag=root,security_model=none,readonly=on,multidevs=remap",
                         "-virtfs", f"local,path={self.shared},mount_tag=shared,security_model=none,multidevs=remap"]
            # A file that somebody who waits can look into.
            console_file = self.shared / "console"
            # An emulated processor sometimes runs into the breakpoint by which the other one changes the kernel's code (text_poke_bp), and the
            # kernel panics before it has started anything: that says nothing of cairn.
            for _ in range(3):
                with open(console_file, "wb") as console:
                    subprocess.run(["timeout", str(timeout), *arguments], stdin=subprocess.DEVNULL, stdout=console, stderr=console)
                text = console_file.read_text(errors="replace").replace("\r", "")
                if "MACHINE: runs" in text or "Kernel panic" not in text:
                    break
        ended = re.search(r"^MACHINE: ended with (\d+)$", text, re.M)
        _, _, said = text.partition(f"MACHINE: runs {self.kernel.version}\n")
        return (int(ended[1]) if ended else None), (said or text).partition("MACHINE: ended with")[0]
