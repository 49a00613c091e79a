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


def transports(t, kind):
    """Those that are tested: {name: arguments for mpirun}."""
    if kind == "mpich":
        return {"default": [],
                "TCP": ["-genv", "UCX_TLS", "tcp,self", "-genv", "UCX_NET_DEVICES", "lo", "-genv", "MPIR_CVAR_NOLOCAL", "1",
                        "-genv", "STENCIL_LEAVE_OPEN", "1"],
                "POSIX shared memory": ["-genv", "UCX_TLS", "posix,self"]}
    # Ports of its own: those that it takes by default (1024 and up) are every other job's as well, and may be taken by the restart. It
    # listens over IPv6 also where that is disabled, and where all goes through shared memory. And a folder: /tmp/ompi.HOST.0 is another's
    # in a user namespace.
    port = str(t.random.randrange(20000, 30000))
    common = ["--oversubscribe", "--mca", "oob_tcp_if_include", "lo", "--mca", "btl_tcp_port_min_v4", port,
              "--mca", "btl_tcp_port_min_v6", port, "--mca", "orte_tmpdir_base", launchers_folder(t),
              *(["--allow-run-as-root"] if os.getuid() == 0 else [])]
    return {"default": common,
            "TCP": [*common, "--mca", "pml", "ob1", "--mca", "btl", "tcp,self", "--mca", "btl_tcp_if_include", "lo",
                    "--mca", "btl_tcp_disable_family", "6"]}


def launchers_folder(t):
    return os.path.join(t.work, "mpirun")


def job(t, kind, ranks=4):
    """A job inside, over each transport."""
    program, starter = compiled(t, kind)
    if program is None:
        raise Skip(f"mpicc.{kind} or mpirun.{kind} isn't installed")
    for name, arguments in transports(t, kind).items():
        t.say(f"transport: {name}")
        # Files in /tmp come and go while a job begins and ends: what is done after the checkpoint stays done.
        same_as_undisturbed(t, lambda steps: [starter, *arguments, "-n", str(ranks), program, str(steps)], scale=300,
                            seconds=10 if t.soak else 3, timeout=300, at_once=True)
