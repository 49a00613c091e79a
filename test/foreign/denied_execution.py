"""Where memory may not become executable, a computation is launched, saved and restarted like everywhere: under PR_SET_MDWE, and under the seccomp filter
that systemd makes for MemoryDenyWriteExecute=. Who has executable memory of its own from before is refused there by name, and goes on elsewhere."""
# ci: exact user
import ctypes
import mmap
import os
import re
import struct

from cairn_test import check

NEEDS = ["/bin/busybox"]

# What a just-in-time compiler does.
COMPILER = """
import ctypes, mmap, sys, time
memory = mmap.mmap(-1, 4096, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, 7)
memory.write(bytes([0x8d, 0x47, 0x01, 0xc3]))  # lea 1(%rdi), %eax; ret
next_one = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(memory)))
number = 0
while True:
    number = next_one(number)
    print("number", number, flush=True)
    time.sleep(0.05)
"""
LINE = r"line (\d+) of 3 words\r?\n"
SCRIPT = """
n=0
until [ -e end ]; do
    n=$((n + 1))
    echo line $n of $(echo $n is counted | busybox wc -w) words
    busybox sleep 0.03
done
exit 7
"""


def deny_by_prctl():
    """False: the kernel can't (before Linux 6.3)."""
    pr_set_mdwe, refuse_exec_gain = 65, 1
    return ctypes.CDLL(None).prctl(pr_set_mdwe, refuse_exec_gain, 0, 0, 0) == 0


def deny_by_filter():
    """mprotect with PROT_EXEC, and mmap with PROT_WRITE as well, fail with EPERM."""
    load, equal, all_of, give = 0x20, 0x15, 0x54, 0x06  # <linux/bpf_common.h>: BPF_LD | BPF_W | BPF_ABS and so on
    allow, eperm = 0x7fff0000, 0x00050001
    number, third = 0, 16 + 2 * 8  # struct seccomp_data
    code = [(load, 0, 0, number), (equal, 0, 3, 10), (load, 0, 0, third), (all_of, 0, 0, mmap.PROT_EXEC), (equal, 5, 4, mmap.PROT_EXEC),
            (equal, 0, 3, 9), (load, 0, 0, third), (all_of, 0, 0, mmap.PROT_EXEC | mmap.PROT_WRITE), (equal, 1, 0, mmap.PROT_EXEC | mmap.PROT_WRITE),
            (give, 0, 0, allow), (give, 0, 0, eperm)]
    instructions = b"".join(struct.pack("HBBI", *each) for each in code)
    room = ctypes.create_string_buffer(instructions, len(instructions))
    program = ctypes.create_string_buffer(struct.pack("HxxxxxxQ", len(code), ctypes.addressof(room)))
    libc, no_new_privs, seccomp, filter_mode = ctypes.CDLL(None, use_errno=True), 38, 22, 2
    check(libc.prctl(no_new_privs, 1, 0, 0, 0) == 0, "PR_SET_NO_NEW_PRIVS")
    check(libc.prctl(seccomp, filter_mode, ctypes.c_void_p(ctypes.addressof(program)), 0, 0) == 0, f"filter: errno {ctypes.get_errno()}")
    return True


def refuse_compiler(t, checkpoint, why):
    code, out, err = t.command("restart", checkpoint, timeout=60)
    check(code == 3 and "has executable memory at" in err, f"{why}: restart ended with {code}: {out}{err}")


def go_on(t):
    script, end = os.path.join(t.work, "script"), os.path.join(t.work, "end")
    with open(script, "w", encoding="utf-8") as file:
        file.write(SCRIPT)
    for shell in (["bash"], ["busybox", "sh"]):
        first = len(t.programs)
        program = t.launch([*shell, script])
        for number in range(t.rounds):
            program.expect(LINE)
            program, _ = t.cycle(program, number)
        program.expect(LINE)
        with open(end, "w", encoding="utf-8"):
            pass
        program.expect_exit(7)
        os.unlink(end)
        for each in t.programs[first:]:
            numbers = [int(found) for found in re.findall(LINE.encode(), each.terminal.text)]
            check(numbers and numbers == list(range(numbers[0], numbers[0] + len(numbers))), f"{each.name} has counted {numbers}")


def test(t):
    program = t.launch(["/usr/bin/python3", "-c", COMPILER])
    program.expect(r"number 3\r?\n")
    program, _ = t.cycle(program, 0)
    program.expect(r"number \d+\r?\n")
    checkpoint = t.checkpoint()
    t.pull_the_plug()
    for why, deny in (("PR_SET_MDWE", deny_by_prctl), ("a filter", deny_by_filter)):
        t.command("quit")  # the next coordinator, and all that it begins, is under the rule as well
        if deny():
            refuse_compiler(t, checkpoint, why)
            go_on(t)
            t.say(why)
