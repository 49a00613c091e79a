"""MPI jobs of four ranks: a stencil, compiled here, with and without checkpoints; the bits of its result are compared."""

import os
import shutil

from . import Skip, check, same_as_undisturbed

SOURCE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "foreign", "mpi", "stencil.c")


def compiled(t, kind):
    """The stencil's path and mpirun's name; (None, None) if this MPI isn't installed."""
    compiler, starter = f"mpicc.{kind}", f"mpirun.{kind}"
    if not shutil.which(compiler) or not shutil.which(starter):
        return None, None
    program = os.path.join(t.folder, "stencil")
    code, out, err = t.run([compiler, "-w", "-O2", "-rdynamic", "-o", program, SOURCE, "-ldl"])
    check(code == 0, f"{compiler}: {out}{err}")
    return program, starter


def job(t, kind, transports, ranks=4):
    """transports: {name: arguments for mpirun}. Each is tested for itself."""
    program, starter = compiled(t, kind)
    if program is None:
        raise Skip(f"mpicc.{kind} or mpirun.{kind} isn't installed")
    for name, arguments in transports.items():
        t.say(f"transport: {name}")
        # Files in /tmp come and go while a job begins and ends: what is done after the checkpoint stays done.
        same_as_undisturbed(t, lambda steps: [starter, *arguments, "-n", str(ranks), program, str(steps)], scale=300,
                            seconds=10 if t.soak else 3, timeout=300, at_once=True)
