"""Harness of the end-to-end tests. Python 3 and its standard library only.

A test is a file with a function `test(t)`, which gets a `Test`: a session of its own in a folder of its own. It fails by raising;
whatever it started is killed afterwards. NEEDS = [PATH...]: it is skipped where one of these files isn't there. Which modes CI runs it
in is said in its head (test/CMakeLists.txt): `# ci: exact user`. `python3 -m cairn_test FILE` runs one by hand.
"""

import argparse
import os
import random
import sys
import time
import traceback

from . import modes, processes
from .rounds import files_below, same_as_undisturbed
from .session import SLOW, Again, Failure, Program, Session
from .terminal import Terminal, stitched, without_messages
from .witness import Witness

__all__ = ["main", "Test", "Failure", "Program", "Session", "Terminal", "Skip", "Again", "SLOW", "stitched", "without_messages",
           "processes", "check", "same_as_undisturbed", "files_below"]

SKIPPED = 77


class Skip(Exception):
    pass


def check(condition, message):
    if not condition:
        raise Failure(message)


class Test(Session):
    def __init__(self, arguments, name):
        self.arguments, self.mode, self.rounds, self.soak = arguments, arguments.mode, arguments.rounds, arguments.soak
        self.dry = arguments.dry
        self.random = random.Random(arguments.seed)
        super().__init__(arguments.build, modes.ids_of(arguments.mode), keep_folder=arguments.keep)
        self.test_name = name
        self.began = time.monotonic()
        self.different = ""  # what the witness has found

    def skip_part(self, name, reason):
        """Of what this tests a part can't be tested here: scripts/test looks it up in test/allowed-skips.txt."""
        self.say(f"SKIPPED PART {name}: {reason}")

    def own_by_user(self):
        """Gives the working folder to the ordinary user of these tests, and lets him reach it. Returns his name."""
        user = modes.ordinary_user()
        os.chmod(self.folder, 0o711)
        os.chown(self.work, user.pw_uid, user.pw_gid)
        for path in os.listdir(self.work):
            os.chown(os.path.join(self.work, path), user.pw_uid, user.pw_gid)
        return user.pw_name

    def say(self, text):
        print(f"[{time.monotonic() - self.began:7.2f}] {text}", flush=True)

    def launch(self, argv, native=False, **options):
        return super().launch(argv, native=native or self.dry, **options)

    def wait_members(self, count, timeout=20.0):
        if not self.dry:
            super().wait_members(count, timeout)

    def native(self, argv, timeout=120.0, **options):
        """The undisturbed run: (terminal's text, wait status, seconds)."""
        began = time.monotonic()
        program = self.launch(argv, native=True, **options)
        status = program.exit_status(timeout)
        taken = time.monotonic() - began
        self.programs.remove(program)
        text = b""
        if program.terminal:
            program.terminal.drain()
            text = program.terminal.text
            program.terminal.hang_up()
        return text, status, taken

    def order(self, text, path=None):
        """Tells a program of test/checkpoint what to do next: it polls this file (the one in the folder of work)."""
        path = path or os.path.join(self.work, "command")
        with open(path + ".new", "w") as file:
            file.write(text + "\n")
        os.rename(path + ".new", path)

    def cycle(self, program, number, spare_coordinator=None, at_once=False, **options):
        """Checkpoint, kill -9, restart from the script. Returns the restarted program and what the old terminal
        showed. at_once: `checkpoint --kill`, for programs that do things which can't be done twice (append to a file
        that they open anew, remove a file): what they do between checkpoint and death stays done."""
        if self.dry:
            return program, b""
        witness = Witness(self) if self.arguments.witness else None
        before = witness.looks(f"before-{number}") if witness else []
        self.checkpoint(*(["--kill"] if at_once else []))
        old = program.terminal
        if spare_coordinator is None:
            spare_coordinator = number % 2 == 1  # both: a coordinator that lives on, and one that is gone as well
        self.pull_the_plug(spare_coordinator)
        shown = old.text if old else b""
        if witness and old:
            options.setdefault("size", old.size)  # a new size is a difference that there has to be
        fresh = self.restart(name=f"restart {number + 1}", **options)
        self.say(f"round {number + 1}: checkpoint, kill -9, restart")
        if witness:
            self.different += witness.differences(before, witness.looks(f"after-{number}"), "--living")
        return fresh, shown


def _arguments():
    here = os.path.dirname(os.path.abspath(__file__))
    root = os.path.dirname(os.path.dirname(os.path.dirname(here)))
    parser = argparse.ArgumentParser(description="An end-to-end test of cairn.")
    parser.add_argument("names", nargs="*", help="what to test, where the test offers a choice")
    parser.add_argument("--rounds", type=int, default=3, help="checkpoints, kills and restarts")
    parser.add_argument("--mode", choices=modes.MODES, help="who runs it, with which ids")
    parser.add_argument("--ids", choices=("exact", "virtual"), default="exact")
    parser.add_argument("--user", action="store_true", help="as an ordinary user")
    parser.add_argument("--build", default=os.environ.get("CAIRN_BUILD", os.path.join(root, "build", "release")))
    parser.add_argument("--soak", action="store_true", help="the long form")
    parser.add_argument("--witness", action="store_true",
                        help="fails if anything that the kernel shows of the programs is another after a restart (docs/witness.md)")
    parser.add_argument("--dry", action="store_true", help="no cairn, no checkpoints: does the test itself work?")
    parser.add_argument("--own-network", action="store_true", help="root: in a network of its own, where nobody else is given a port of this test's")
    parser.add_argument("--keep", action="store_true", help="leave the folder behind")
    parser.add_argument("--seed", type=int, default=None, help="of the random moments")
    arguments = parser.parse_args()
    if arguments.mode is None:
        user = arguments.user or os.getuid() != 0
        arguments.mode = ("userns" if user else "exact") if arguments.ids == "exact" else ("user" if user else "virtual")
    if arguments.seed is None:
        arguments.seed = random.randrange(1 << 30)
    arguments.build = os.path.abspath(arguments.build)
    return arguments


def main(test, needs=()):
    """Runs one test and ends the program: 0 passed, 1 failed, 77 skipped."""
    arguments = _arguments()
    if arguments.own_network:
        modes.enter_own_network()
    modes.enter(arguments.mode)
    processes.become_subreaper()
    name = os.path.basename(sys.argv[0]).removesuffix(".py")
    os.umask(0o022)
    t = Test(arguments, name)
    code = 0
    try:
        missing = [path for path in needs if not os.path.exists(path)]
        if missing:
            raise Skip(f"not installed: {', '.join(missing)}")
        if not t.dry and not os.access(t.cairn, os.X_OK):
            raise Failure(f"no {t.cairn}: build first, or name the build folder by --build")
        t.say(f"{name} {' '.join(arguments.names)}: mode {t.mode}, {t.rounds} rounds, seed {arguments.seed}")
        test(t)
        check(not t.different, t.different)
        t.say("PASSED")
    except Skip as reason:
        t.say(f"SKIPPED: {reason}")
        code = SKIPPED
    except Again as reason:
        tries = int(os.environ.get("CAIRN_TEST_TRY", "1"))
        if tries < 5:
            t.say(f"again: {reason}")
            t.close()
            os.environ["CAIRN_TEST_TRY"] = str(tries + 1)
            os.execv(sys.executable, modes.own_command())
        t.say(f"FAILED, {tries} times: {reason}")
        code = 1
    except (Failure, Exception, KeyboardInterrupt) as failure:
        code = 1
        if isinstance(failure, Failure):
            where = [frame for frame in traceback.extract_tb(failure.__traceback__)
                     if os.sep + "cairn_test" + os.sep not in frame.filename]
            line = f" ({os.path.basename(where[-1].filename)}:{where[-1].lineno})" if where else ""
            t.say(f"FAILED{line}: {failure}")
        else:
            t.say("FAILED by an error of the test's own:")
            traceback.print_exc()
        try:
            print(t.dump(), flush=True) if not t.dry else None
        except Exception as error:
            print(f"(no dump: {error})")
    finally:
        try:
            t.close()
        except Exception as error:
            t.say(f"FAILED to clean up: {error}")
            code = code or 1
    sys.stdout.flush()
    os._exit(code)
