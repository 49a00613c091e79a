#!/usr/bin/env python3
"""Makes the picture of states in docs/causality.md: trace-states.png. By hand: needs a build, mpiexec.mpich and chromium.

    docs/pictures/record_states.py [--build FOLDER]"""
import argparse
import pathlib
import subprocess
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build/release")
    build = parser.parse_args().build.resolve()
    cairn, program = build / "bin/cairn", build / "test/mpi/late.mpich"
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(["mpiexec.mpich", "-n", "3", cairn, "mpi", "trace", "--out", "t", program, "5"], cwd=folder, check=True)
        traces = [f"t/trace.{rank}" for rank in range(3)]
        subprocess.run([cairn, "causality", "view", "--by-time", *traces, "page.html"], cwd=folder, check=True)
        subprocess.run(["chromium", "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={folder}/profile", "--window-size=1100,430",
                        f"--screenshot={pathlib.Path(__file__).parent / 'trace-states.png'}", f"file://{folder}/page.html#light"], check=True)


main()
