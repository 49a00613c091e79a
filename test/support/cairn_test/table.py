"""A test that goes through a table of programs: each entry is a run of its own, and the failing ones are named at the end."""

import os
import subprocess
import sys

from .session import Failure


def each(t, file, names):
    """Runs the test in `file` once for each name, with this run's mode and options. Each one's text goes to NAME.MODE.log in
    CAIRN_TEST_REPORTS, or in the working folder. A run in which nothing is installed is skipped."""
    from . import Skip
    bad, missing = [], []
    for name in names:
        command = [sys.executable, os.path.dirname(os.path.abspath(__file__)), os.path.abspath(file), name, "--mode", t.mode,
                   "--rounds", str(t.rounds), "--build", t.build, *(["--witness"] if t.arguments.witness else []),
                   *(["--dry"] if t.dry else [])]
        found = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
        text = found.stdout.decode(errors="replace")
        said = [line for line in text.splitlines() if "FAILED" in line or "SKIPPED" in line]
        t.say(f"{name}: {'passed' if found.returncode == 0 else said[0] if said else found.returncode}")
        (missing if found.returncode == 77 else bad if found.returncode else []).append(name)
        with open(os.path.join(os.environ.get("CAIRN_TEST_REPORTS", t.work), f"{name}.{t.mode}.log"), "w") as log:
            log.write(text)
    if len(missing) == len(names):
        raise Skip("none of them is installed")
    if bad:
        raise Failure(f"{len(bad)} of {len(names) - len(missing)}: {' '.join(bad)}")
