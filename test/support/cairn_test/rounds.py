"""The common shape of a test: the same program undisturbed, and with checkpoints, kills and restarts; then compare."""

import hashlib
import math
import os
import shutil

from . import processes
from .session import Again, Failure
from .terminal import stitched, without_messages


def files_below(folder):
    """{relative path: sha256} of all regular files."""
    found = {}
    for where, _, names in os.walk(folder):
        for name in names:
            path = os.path.join(where, name)
            if os.path.isfile(path) and not os.path.islink(path):
                with open(path, "rb") as file:
                    found[os.path.relpath(path, folder)] = hashlib.sha256(file.read()).hexdigest()  # file_digest() is new in Python 3.11
    return found


def _fresh(folder):
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)


def _difference(whole, pieces):
    text = [f"undisturbed ({len(whole)} bytes):\n{whole[-1500:].decode(errors='replace')}"]
    for number, piece in enumerate(pieces):
        text.append(f"piece {number} ({len(piece)} bytes):\n{piece[-1500:].decode(errors='replace')}")
    return "\n".join(text)


def same_as_undisturbed(t, argv, *, prepare=None, rounds=None, output=None, files=True, lines_only=False, code=0,
                        timeout=180.0, env=None, scale=None, seconds=2.0, before_checkpoint=None, at_once=False):
    """Runs argv natively, then under cairn with a checkpoint, kill -9 and restart at random moments, and demands the
    same terminal text, files in the working folder and exit status.

    prepare(folder): fills the working folder before each run.
    scale: argv and prepare are functions of it as well: argv(scale), prepare(folder, scale). It is where to begin; it
    grows until the undisturbed run takes `seconds`: machines differ, and a checkpoint needs a moment to hit.
    output: name of a file in the working folder that stdout goes to, instead of the terminal.
    lines_only: the order of lines is left to chance: the file's lines are compared sorted (terminal text isn't).
    at_once: see Test.cycle."""
    rounds = t.rounds if rounds is None else rounds
    sink = os.path.join(t.work, output) if output else None
    words = (lambda _: argv) if not callable(argv) else argv

    def fill():
        _fresh(t.work)
        if prepare:
            prepare(t.work) if scale is None else prepare(t.work, scale)

    for trial in range(6):
        fill()
        given = files_below(t.work)
        whole, status, taken = t.native(words(scale), timeout=timeout, stdout=sink, env=env)
        if os.waitstatus_to_exitcode(status) != code:
            raise Failure(f"the undisturbed run: {processes.describe_status(status)}\n"
                          f"{whole[-2000:].decode(errors='replace')}")
        if scale is None or taken >= seconds:
            break
        t.say(f"undisturbed, size {scale}: {taken:.2f} s")
        # No more than eightfold at once: the first run may have been mostly start-up.
        scale = math.ceil(scale * min(8.0, 1.25 * seconds / max(taken, 0.01)))
    else:
        raise Failure(f"the undisturbed run took {taken:.2f} s only, whatever the size of its input")
    native_files = files_below(t.work)
    if not whole.strip() and native_files == given:
        raise Failure("the undisturbed run has printed nothing and written nothing: there is nothing to compare")
    t.say(f"undisturbed{'' if scale is None else f', size {scale}'}: {taken:.2f} s, {len(whole)} bytes on the terminal, "
          f"{len(native_files)} files")

    fill()
    program = t.launch(words(scale), stdout=sink, env=env)
    pieces = []
    for number in range(rounds):
        try:
            t.wait_until(lambda: t.dry or processes.status_of(program.pid) is not None or t.has_members(1),
                         f"{program.name} to be in the group")
            # Shares of what is left, so that the last round still finds the program at work. The undisturbed run may
            # have been slow because the machine was busy then.
            t.sleep(min(taken, seconds) * t.random.uniform(0.1, 0.7) / rounds)
            if before_checkpoint:
                before_checkpoint(number, program)
            program, shown = t.cycle(program, number, at_once=at_once)
        except Failure:
            t.sleep(0.2)  # it may be ending just now
            if processes.status_of(program.pid) is None:
                raise
            # How long a program takes is not ours to say: one that was faster this time has had fewer rounds, and
            # begins anew, for it was to have them all.
            code_then = os.waitstatus_to_exitcode(processes.status_of(program.pid))
            if code_then != code:
                raise
            raise Again(f"ended before checkpoint {number + 1} of {rounds}") from None
        pieces.append(shown)
    program.expect_exit(code, timeout)
    pieces.append(program.terminal.text)
    pieces = [without_messages(piece) for piece in pieces]
    if lines_only:
        seen = {line for piece in pieces for line in piece.splitlines()}
        missing = set(whole.splitlines()) - seen
        if missing:
            raise Failure(f"lines that never came: {sorted(missing)[:5]}")
    elif not stitched(whole, pieces):
        raise Failure("the terminal did not show what the undisturbed run shows\n" + _difference(whole, pieces))
    if files:
        now = files_below(t.work)
        if now != native_files:
            wrong = sorted(name for name in set(now) | set(native_files) if now.get(name) != native_files.get(name))
            if lines_only and output in wrong:
                wrong.remove(output)
            if wrong:
                detail = ""
                if output in wrong:
                    with open(sink, "rb") as file:
                        detail = f"\nend of {output}: {file.read()[-1000:]!r}"
                raise Failure(f"files that differ from the undisturbed run's: {wrong}{detail}")
    return pieces


def counting(t, argv, *, line, last, end, code, name, before=lambda: None):
    """A program that prints lines like `line` for ever until there is a file `end`, and then `last`: through all rounds of checkpoint, kill and restart.
    `before`: is called before each of them. Of its terminals none may show a word `name`, if that is given."""
    first = len(t.programs)
    program = t.launch(argv)
    for number in range(t.rounds):
        program.expect(line)
        before()
        program, _ = t.cycle(program, number, at_once=True)
    with open(end, "w", encoding="utf-8"):
        pass
    program.expect(last, 60)
    program.expect_exit(code)
    os.unlink(end)
    for each in t.programs[first:] if name else []:
        if name.encode() in each.terminal.text:
            raise Failure(f"{each.name} speaks of {name}: {each.terminal.tail()}")
