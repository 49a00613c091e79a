#!/usr/bin/python3
"""Memory of hugetlb pages, from a pool that is raised for the test where it may be."""
import os
import sys
import time
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "support"))
from cairn_test import Skip, check, main
from cairn_test.repeated import expect

POOL = "/sys/kernel/mm/hugepages/hugepages-2048kB/"
NEEDED = 5


def number(name):
    with open(POOL + name) as file:
        return int(file.read())


def raise_by(count):
    with open(POOL + "nr_hugepages", "w") as file:
        file.write(str(number("nr_hugepages") + count))


def test(t):
    raised = 0
    try:
        if number("free_hugepages") - number("resv_hugepages") < NEEDED:
            before = number("nr_hugepages")
            raise_by(NEEDED)
            raised = number("nr_hugepages") - before
    except OSError as problem:
        raise Skip(f"no huge pages, and none can be had: {problem}")
    try:
        with_pages(t)
    finally:
        if raised:
            raise_by(-raised)


def rain(t, program):
    """A checkpoint every 50 ms for 10 s without a restart."""
    end, number = time.monotonic() + 10, 0
    while time.monotonic() < end:
        code, _, err = t.command("checkpoint")
        check(code == 0, f"'cairn checkpoint' ended with {code}: {err}")
        t.order(f"check rain-{number}")
        expect(program, f"CHECKED rain-{number}")
        t.sleep(0.05)
        number += 1


def with_pages(t):
    path = os.path.join(t.build, "test", "checkpoint", "huge_pages")
    program = t.launch([path], env={"CAIRN_TEST_COMMAND": os.path.join(t.work, "command")})
    found = program.expect(r"^(READY|SKIP[^\r\n]*|FAILED[^\r\n]*)\r?\n")
    check(not found[1].startswith(b"FAILED"), found[1])
    if found[1].startswith(b"SKIP"):
        raise Skip(found[1].decode())
    if t.soak:
        rain(t, program)
    for count in range(t.rounds):
        program, _ = t.cycle(program, count)
        t.order(f"check {count}")
        expect(program, f"CHECKED {count}")
    t.order("go")
    expect(program, "EXIT-SUCCESS")
    program.expect_exit(0)


main(test)
