"""What can't be saved is refused by name and with the reason, and the program goes on; in the long form it is asked for again and again."""
# ci: exact (what is refused, and why, is the same whatever the ids)
import os
import re
import time
from cairn_test import Skip, check, processes
from cairn_test.serving import ask, begin, finish

KINDS = {
    "thread-files": r"thread \d+ has a descriptor table of its own",
    "thread-seccomp": r"thread \d+ has a seccomp filter of its own",
    "thread-network": r"in another network namespace than the process's others",
    "seccomp": r"has a seccomp filter of its own, which only root can read",
    "seccomp, restart": r"has a seccomp filter of its own",
    "seccomp listener": r"has a seccomp filter (that asks a listener|of its own)",
    "seccomp strict": r"is in seccomp's strict mode",
    "interface of its network": r"its net namespace: has the network interface tun0 \(tun\), which no process of the computation has open",
    "veth to the outside": r"its net namespace: has the network interface inside \(veth\), whose other end is in a network outside",
    "pids of children beside threads": r"in another pid \(for its children\) namespace than the process's others|has threads, and another pid namespace",
    "pids come into from outside": r"in a pid namespace of its own that it has come into from outside",
    "pids of a static program": r"makes its system calls past libcairn\.so and has made a pid namespace in a user namespace, .*let a dynamic program make it",
    "file of the proc of its pids": r"is /.*1/stat in a proc of the computation's own",
    "descriptor table": r"shares its descriptor table with \d+ \(refused\) \(clone with CLONE_FILES\)",
    "folders": r"shares its working folder, root folder and umask with \d+ \(refused\) \(clone with CLONE_FS\)",
    "semaphore undo": r"shares its list of semaphore operations to be undone with",
    "memory": r"shares the memory of \d+ \(refused\) \(clone with CLONE_VM\)",
    "vfork": r"vfork\? its child \d+ \(refused\) has not execed",
    "io-uring-thread": r"has an io_uring with a thread of the kernel's \(\d+",
    "Linux AIO": r"has a context of Linux AIO \(io_setup\(2\)\)",
    "io-uring": r"descriptor \d+: is an io_uring with 1 requests under way, 1 of which wait .*--io-uring=enosys",
    "io-uring-eventfd": r"descriptor \d+: is an io_uring that tells an eventfd",
    "queue": r"to be notified by a thread .* has been closed",
    "packet ring": r"descriptor \d+: is a packet socket with a ring for sending",
    "kernel TLS": r"descriptor \d+: is a TCP socket with the kernel's tls on it, connected to",
    "socket of another family": r"descriptor \d+: is a socket of family \d+",
    "vsock": r"descriptor \d+: is a vsock (that is connected to port|that listens, and a connection waits|with a connection)",
    "mptcp": r"descriptor \d+: is an MPTCP socket that is connected to .*: .*plain TCP",
    "traced": r"stands in a stop of which its tracer, .*which can't be made again",
}
# To root the kernel shows filters, and suspends them for what a checkpoint calls: resource.seccomp, resource.seccomp_strict.
OF_USERS = {"seccomp", "thread-seccomp", "seccomp, restart", "seccomp strict"}


def test(t):
    refused = 0
    for kind, reason in KINDS.items():
        root = t.mode in ("exact", "virtual")
        if root and kind in OF_USERS:
            continue
        try:
            program = begin(t, "refused", kind)
        except Skip as reason_of_it:
            t.skip_part(kind, str(reason_of_it).removeprefix("SKIP "))
            continue
        tries, end = 0, time.monotonic() + (5 if t.soak else 0)
        while tries == 0 or time.monotonic() < end:
            code, _, err = t.command("checkpoint", "--timeout", "1" if t.soak else "4", timeout=40)
            check(code in (3, 6) and re.search(reason, err) and "(refused)" in err,
                  f"{kind}: the checkpoint ended with {code}: {err}")
            tries += 1
            t.sleep(0.05 if t.soak else 0)
        t.say(f"{kind}, {tries} times: {err.strip()}")
        refused += 1
        ask(t, program, kind)
        finish(t, program)
        os.unlink(os.path.join(t.work, "command"))
        processes.kill_tree({t.coordinator_pid()})
    # Each kind that this machine hasn't got is on the list of what may be skipped; more than half never is.
    check(2 * refused >= len(KINDS), f"only {refused} of {len(KINDS)} kinds were there to be refused")
