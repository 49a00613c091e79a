"""Kernels of Debian's and Ubuntu's: which there are, their packages, and what of them a machine needs to boot."""
import gzip
import hashlib
import io
import lzma
import os
import pathlib
import re
import shutil
import subprocess
import urllib.request

DEBIAN, UBUNTU = "http://deb.debian.org/debian", "http://archive.ubuntu.com/ubuntu"
# Of each, the newest kernel that the suite has. A name is what is given to `scripts/test --machines`. Ubuntu's have what Debian's are built without:
# names of anonymous memory (CONFIG_ANON_VMA_NAME).
SUITES = {"bullseye": (DEBIAN, "bullseye"), "bookworm": (DEBIAN, "bookworm"), "trixie": (DEBIAN, "trixie"), "backports": (DEBIAN, "trixie-backports"),
          "noble": (UBUNTU, "noble")}
# The root file system comes over 9p; the diag modules tell a capture about sockets; tls and what it encrypts with are for
# faults.kernel_tls.
MODULES = ["virtio_pci", "9pnet_virtio", "9p", "overlay", "unix_diag", "inet_diag", "tcp_diag", "netlink_diag",
           "af_packet_diag", "raw_diag", "tls", "gcm", "ghash_generic", "ctr", "seqiv"]


def fetch(source, path):
    with urllib.request.urlopen(f"{source}/{path}", timeout=300) as answer:
        return answer.read()


def packages_of(source, suite):
    """{name: fields} of the suite's index."""
    text = lzma.decompress(fetch(source, f"dists/{suite}/main/binary-amd64/Packages.xz")).decode()
    found = {}
    for entry in text.split("\n\n"):
        fields = dict(re.findall(r"^([\w-]+): (.*)$", entry, re.M))
        if "Package" in fields:
            found[fields["Package"]] = fields
    return found


def version_key(name):
    return [int(number) for number in re.findall(r"\d+", name)]


def needed_packages(packages):
    """The image, and, since Linux 7 and of Ubuntu's, the packages that have its modules."""
    images = [name for name in packages if re.fullmatch(r"linux-image-\d[\w.+]*-amd64|linux-image-\d[\d.-]*-amd64", name)]
    if not images:
        newest = max((name for name in packages if re.fullmatch(r"linux-image-unsigned-\d[\d.-]*-generic", name)), key=version_key)
        version = newest.removeprefix("linux-image-unsigned-")
        return [newest, f"linux-modules-{version}", f"linux-modules-extra-{version}"]
    newest = max(images, key=version_key)
    return [newest] + [name for name in re.findall(r"linux-(?:binary|modules)-[\w.+-]+", packages[newest].get("Depends", ""))
                       if name in packages]


def unpack(source, fields, folder):
    data = fetch(source, fields["Filename"])
    if hashlib.sha256(data).hexdigest() != fields["SHA256"]:
        raise RuntimeError(f"{fields['Filename']} isn't what its index says")
    subprocess.run(["dpkg-deb", "-x", "/dev/stdin", folder], input=data, check=True)


class Kernel:
    """One of them, unpacked below `cache` (fetched if it isn't there)."""

    def __init__(self, name, cache):
        self.name, self.folder = name, pathlib.Path(cache) / name
        if not (self.folder / "complete").exists():
            shutil.rmtree(self.folder, ignore_errors=True)
            self.folder.mkdir(parents=True)
            source, suite = SUITES[name]
            packages = packages_of(source, suite)
            for package in needed_packages(packages):
                unpack(source, packages[package], self.folder)
            (self.folder / "complete").touch()
        self.image = next(iter([*self.folder.glob("boot/vmlinuz-*"), *self.folder.glob("usr/lib/modules/*/vmlinuz*")]))
        self.modules = next(iter([*self.folder.glob("lib/modules/*"), *self.folder.glob("usr/lib/modules/*")]))
        self.version = self.modules.name

    def module_files(self, names=None):
        """Those of `names` (MODULES) that the kernel has, and what they need, in the order of their loading."""
        base = self.modules.parent.parent.parent
        if not (self.modules / "modules.dep").exists():
            subprocess.run(["depmod", "-b", base, self.version], check=True)
        files = []
        for module in names or MODULES:
            shown = subprocess.run(["modprobe", "-d", base, "-S", self.version, "--show-depends", module], capture_output=True, text=True)
            files += [line.split()[1] for line in shown.stdout.splitlines() if line.startswith("insmod")]
        return list(dict.fromkeys(files))


def plain(path):
    """A module's bytes, unpacked."""
    data = pathlib.Path(path).read_bytes()
    if path.endswith(".xz"):
        return lzma.decompress(data)
    if path.endswith(".zst"):
        return subprocess.run(["zstd", "-dc"], input=data, stdout=subprocess.PIPE, check=True).stdout
    return data


def archive(files, symlinks=()):
    """A cpio archive, as an initramfs is: {path: bytes, or None for a folder}."""
    out = io.BytesIO()

    def entry(path, mode, data):
        name = path.encode() + b"\0"
        fields = [0, mode, 0, 0, 1, 0, len(data), 0, 0, 0, 0, len(name), 0]
        out.write(b"070701" + b"".join(b"%08X" % field for field in fields) + name)
        out.write(b"\0" * (-out.tell() % 4))
        out.write(data)
        out.write(b"\0" * (-out.tell() % 4))

    for path, data in files.items():
        entry(path, 0o040755 if data is None else 0o100755, data or b"")
    for path, target in symlinks:
        entry(path, 0o120777, target.encode())
    entry("TRAILER!!!", 0, b"")
    return gzip.compress(out.getvalue(), 1)


def initramfs(kernel, init, modules=None):
    modules = kernel.module_files(modules)
    names = [re.sub(r"\.(xz|zst)$", "", os.path.basename(path)) for path in modules]
    files = {folder: None for folder in ("bin", "proc", "sys", "dev", "lower", "upper", "new", "mods")}
    files["bin/busybox"] = pathlib.Path(shutil.which("busybox")).read_bytes()
    files.update({f"mods/{name}": plain(path) for name, path in zip(names, modules)})
    files["init"] = init(names).encode()
    return archive(files)
