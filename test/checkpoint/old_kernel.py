"""Programs come back as well on a kernel that hasn't got what came after Linux 5.10 (scripts/old-kernel), begun there or taken there from this
one. The long form does so with each feature of the table left out by itself, and with more programs."""
# ci: exact
import importlib.machinery
import importlib.util
import os
from cairn_test import check
from cairn_test.serving import ask, begin, finish

PATH = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../scripts/old-kernel")
PROGRAMS = ["memory", "libraries", "threads", "membarrier", "tcp_sockets", "unix_sockets", "pipes"]
MORE = ["attributes", "children", "clocks", "cpu_clocks", "epoll", "eventfd", "file_locks", "files", "ids_in_calls", "ignored_signals", "inotify",
        "memfd_seals", "mqueue", "mutexes", "notifying_timers", "pidfd", "posix_shm", "ptys", "registers", "robust_list", "signalfd", "signals",
        "single_shots", "sleeping", "system_v", "timerfd", "timers", "udp_sockets", "vfork"]


def old_kernel():
    loader = importlib.machinery.SourceFileLoader("old_kernel_script", PATH)
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("old_kernel_script", loader))
    loader.exec_module(module)
    return module


def rounds(t, name):
    program = begin(t, name)
    for number in range(t.rounds):
        program, _ = t.cycle(program, number)
        ask(t, program, number)
    finish(t, program)


def apart(what):
    """In a child: a filter is for life."""
    child = os.fork()
    if child == 0:
        try:
            what()
        except BaseException as problem:  # noqa: B036: the parent says what the child died of
            print(problem, flush=True)
            os._exit(1)
        os._exit(0)
    check(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0, "the test's child with a filter has failed, above")


def test(t):
    kernel = old_kernel()
    # An ordinary user's full TCP connections are refused without it (docs/kernels.md): the program has some.
    needed = () if t.mode in ("exact", "virtual") else ("buffer_lock",)
    if t.soak:
        for feature in set(kernel.FEATURES) - set(needed):
            def without(feature=feature):
                kernel.install(kernel.rules_of(without=[feature]))
                for name in PROGRAMS:
                    rounds(t, name)
            t.say(f"without {feature}")
            apart(without)
    # From this kernel to one of before: what the image has of it must do there.
    for name in ("memory", "libraries"):
        program = begin(t, name)
        t.checkpoint()
        t.pull_the_plug()

        def goes_on(name=name):
            kernel.install(kernel.rules_of("5.10"))
            program = t.restart(name=f"restart of {name}")
            ask(t, program, 0)
            finish(t, program)
        apart(goes_on)
    kernel.install(kernel.rules_of("5.10", but=needed))
    for name in PROGRAMS + (MORE if t.soak else []):
        rounds(t, name)
