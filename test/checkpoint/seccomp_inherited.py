"""A seccomp filter that the coordinator has too, as everybody in a container has."""
# ci: exact user
import ctypes
import os
from cairn_test import check
from cairn_test.serving import ask, begin, finish


def add_filter():
    """One that allows everything, for this process and its children."""
    class Instruction(ctypes.Structure):
        _fields_ = [("code", ctypes.c_ushort), ("jt", ctypes.c_ubyte), ("jf", ctypes.c_ubyte), ("k", ctypes.c_uint)]

    class Program(ctypes.Structure):
        _fields_ = [("length", ctypes.c_ushort), ("code", ctypes.POINTER(Instruction))]

    allow = (Instruction * 1)(Instruction(0x06, 0, 0, 0x7fff0000))
    libc = ctypes.CDLL(None, use_errno=True)
    set_no_new_privs, set_seccomp, mode_filter = 38, 22, 2
    if os.getuid() != 0:
        check(libc.prctl(set_no_new_privs, 1, 0, 0, 0) == 0, "prctl")
    program = Program(1, allow)
    check(libc.prctl(set_seccomp, mode_filter, ctypes.byref(program), 0, 0) == 0,
          f"seccomp: {os.strerror(ctypes.get_errno())}")


def test(t):
    add_filter()
    program = begin(t, "eventfd")
    for number in range(t.rounds):
        program, _ = t.cycle(program, number)
        ask(t, program, number)
        if number == 1:
            add_filter()  # the last round's coordinator and programs have one more
    finish(t, program)
