"""`cairn restart --env NAME=VALUE` and `--unset NAME`: getenv finds it in the restored program, its child gets it, setenv and
putenv go on from there, and what the program has asked for before stays what it was."""
# ci: exact user

# A command a line. Python's own os.environ is a copy that it has made at its start: libc is asked.
PROGRAM = r"""
import ctypes, sys
libc = ctypes.CDLL(None)
libc.getenv.restype = ctypes.c_char_p
libc.getenv.argtypes = [ctypes.c_char_p]
raw = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_char_p)(("getenv", libc))
kept, old = [], raw(b"FIRST")
while True:
    word, name, *rest = input().encode().split(b" ", 2)
    if word == b"get":
        print("is", libc.getenv(name), flush=True)
    elif word == b"old":
        print("was", ctypes.string_at(old), flush=True)
    elif word == b"set":
        print("set", libc.setenv(name, rest[0], 1), flush=True)
    elif word == b"put":
        kept.append(ctypes.create_string_buffer(name + b"=" + rest[0]))
        print("put", libc.putenv(kept[-1]), flush=True)
    elif word == b"unset":
        print("unset", libc.unsetenv(name), flush=True)
    elif word == b"clear":
        print("clear", libc.clearenv(), flush=True)
    elif word == b"child":
        libc.system(b"echo child $" + name)
    elif word == b"end":
        break
print("DONE", flush=True)
"""


def test(t):
    program = t.launch(["/usr/bin/python3", "-c", PROGRAM], env={"FIRST": "one", "SECOND": "two"})

    def ask(command, answer):
        program.send(command + "\n")
        program.expect(answer)

    ask("get FIRST", r"is b'one'")
    ask("set THIRD three", "set 0")
    ask("put FOURTH four", "put 0")
    for number in range(t.rounds):
        t.checkpoint()
        t.pull_the_plug()
        for bad in ("--env=CAIRN_REGION=x", "--env=NAME", "--unset=A=b"):
            refused = t.restart(bad, terminal="none", wait=False)
            refused.expect_exit(2)
            t.programs.remove(refused)
        long = "x" * 10_000
        program = t.restart("--env", f"SECOND=round {number}", "--env", f"FIFTH={long}", "--unset", "THIRD", "--env", "FOURTH=",
                            name=f"restart {number + 1}")
        ask("get SECOND", f"is b'round {number}'")
        ask("child SECOND", f"child round {number}")
        ask("get FIFTH", f"is b'{long}'")
        ask("get THIRD", "is None")
        ask("get FOURTH", "is b''")
        ask("get FIRST", "is b'one'")
        ask("old FIRST", "was b'one'")
        ask(f"set THIRD three-{number}", "set 0")
        ask("child THIRD", f"child three-{number}")
        ask(f"put FOURTH four-{number}", "put 0")
        ask("unset FIFTH", "unset 0")
        ask("get FIFTH", "is None")
        ask("get FOURTH", f"is b'four-{number}'")
        t.say(f"round {number + 1}: set, taken out, inherited, set again")
    ask("clear x", "clear 0")
    t.checkpoint()
    t.pull_the_plug()
    program = t.restart("--env", "AFTER=clearenv", name="restart behind clearenv")
    ask("get AFTER", "is b'clearenv'")
    ask("get FIRST", "is None")
    program.send("end x\n")
    program.expect("DONE")
    program.expect_exit(0)
