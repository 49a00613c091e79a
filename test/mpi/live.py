"""`cairn mpi debug --live`: the whole replayed job goes forward and back under coordinated checkpoints, also from a record without contents and with
one-sided operations. After each of many movements at random the rank in focus stands where the debugger of single ranks has it (position, place, stack), in
the state that gdb shows there, and so do the others where both debuggers have the same cut. Left, the job goes on freely and is recorded. The page (`--web`) moves it as well. --soak: 100 movements
each."""
import json
import os
import random
import re
import shutil
import signal
import subprocess
import time

from cairn_test.mpi_debugger import Debugger
from cairn_test.mpi_job import expect, order
from cairn_test.web_client import Events, Web

RANKS = 3
PROGRAMS = {"heat": ["4", "16", "6"], "farm": ["8", "40"]}
SHOWN = {"heat": "*plate@8", "farm": "sum"}


class Live(Debugger):
    def __init__(self, job, name, program, options=(), ranks=RANKS):
        super().__init__(job, name, [*job.mpiexec(ranks), *program], ["--live", *options])

    def whole_output(self, count):
        """What the ranks have printed, `count` lines or more. mpiexec, which brings it, is told of no movement: a line may come behind the answer to it, and is
        shown with the next."""
        for _ in range(200):
            lines = [each["line"] for each in self.printed if each["stream"] == "stdout"]
            if len(lines) >= count:
                break
            time.sleep(0.1)
            self.do("checkpoints")
        return lines


def where(debugger):
    """What is behind the function and its place in `place` isn't the same in each replay: the numbers of requests, and how a collective is taken."""
    reached = [{key: each[key] for key in ("event", "position", "place", "stack")} for each in debugger.do("where")["ranks"]]
    return [dict(each, place=each["place"].split("), ")[0]) for each in reached]


def movement(chance, events, anywhere):
    kind = "to" if anywhere else chance.choice(["to", "step", "reverse-step", "forward", "back"])
    if kind == "to":
        rank = chance.randrange(RANKS)
        return f"to {rank}:{chance.randrange(events[rank] + 1)}"
    return kind


def program_of(job, name):
    return [job.program(name), *PROGRAMS[name]]


def ids_of(name):
    """Processes whose command or environment has this word."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        for what in ("cmdline", "environ"):
            try:
                with open(f"/proc/{pid}/{what}", "rb") as file:
                    if name.encode() in file.read() and int(pid) not in found:
                        found.append(int(pid))
            except OSError:
                pass
    return found


def at_random(job, name, count, seed):
    """Held against the debugger that runs each rank alone."""
    chance, program = random.Random(seed), program_of(job, name)
    out, _ = job.record(RANKS, name, program, options=["--contents"])
    refused = same = 0
    with Live(job, name, program, ["--every", "9", "--checkpoints", "5"]) as live, Debugger(job, name, program) as alone:
        events = [alone.do(f"to {rank}:end")["event"] for rank in range(RANKS)]
        alone.do("to 0:0")
        for i in range(count):
            command = movement(chance, events, i % 2 == 0)
            what = f"{name}: {command}, seed {seed}"
            told, expected = live.ask(command), alone.ask(command)
            expect(told["ok"] == expected["ok"], f"{what}: {told}, alone {expected}")
            refused += not told["ok"]
            if not told["ok"]:
                continue
            expect((told["focus"], told["event"], told["position"]) == (expected["focus"], expected["event"], expected["position"]), f"{what}: {told}, alone {expected}")
            focus, reached, known = told["focus"], where(live), where(alone)
            expect(reached[focus] == known[focus], f"{what}: {reached[focus]}, alone {known[focus]}")
            if told["cut"] == expected["cut"]:  # not always: here every collective is one that everybody waits for
                same += 1
                expect(reached == known, f"{what}: {reached}, alone {known}")
            expect([each["position"] for each in reached] == told["cut"], f"{what}: {told['cut']}, but {reached}")
            if focus == 0 and told["event"] > 2:
                value, other = live.ask(f"print {SHOWN[name]}"), alone.ask(f"print {SHOWN[name]}")
                expect(value == other, f"{what}: {value}, alone {other}")
        live.do("to 0:end")
        printed = live.whole_output(len(out.splitlines()))
        expect(sorted(printed) == sorted(out.splitlines()), f"{name}: printed {printed}, recorded {out}")
        kept = live.do("checkpoints")["checkpoints"]
    print(f"{name}, {job.mpi}, seed {seed}: {count} movements, {refused} of them nowhere, {same} times all as alone, {len(kept)} checkpoints at the end", flush=True)
    expect(refused < count and len(kept) <= 6, "hardly anything was tried")
    if count >= 100:  # of a few it's a matter of chance
        expect(refused <= count / 2 and same > count / 4 and len(kept) > 1, "hardly anything was compared")


def one_sided(job, count, seed):
    """No rank can run alone; who is to go on waits in fences for those who stand. With a short `every` there are stops on the way, at which nobody has to stay."""
    chance, program = random.Random(seed), [job.program("window"), "4"]
    out, _ = job.record(RANKS, "window", program)
    every = chance.choice(["1", "3", "5", "9"])
    with Live(job, "window", program, ["--every", every]) as live:
        events = [live.do(f"to {rank}:end")["event"] for rank in range(RANKS)]
        places, sums = {}, {}
        for _ in range(count):
            rank = chance.randrange(RANKS)
            event = chance.randrange(1, events[rank] + 1)
            told = live.do(f"to {rank}:{event}")
            reached = where(live)
            expect((told["event"], reached[rank]["event"], [each["position"] for each in reached]) == (event, event, told["cut"]), f"{told}, {reached}")
            expect(places.setdefault((rank, event), told["place"]) == told["place"], f"{told}, before {places}")
            if rank == 0 and event < events[0]:
                value = live.do("print sum")["value"]
                expect(sums.setdefault(event, value) == value, f"{event}: {value}, before {sums[event]}")
        live.do("to 0:end")
        printed = live.whole_output(len(out.splitlines()))
        expect(printed == out.splitlines(), f"window: printed {printed}, recorded {out}")
    print(f"window, {job.mpi}, seed {seed}: {count} movements, a checkpoint every {every} events", flush=True)


def late_output(job):
    """mpiexec brings what the ranks print when it comes to it, which may be long after they stand: it isn't lost, and needs no other movement."""
    program = program_of(job, "farm")
    out, _ = job.record(RANKS, "farm", program)
    with Live(job, "farm", program) as live:
        live.do("to 0:1")
        mpiexec = [pid for pid in ids_of(job.folder) if re.search(r"mpiexec|mpirun|orterun|prterun", os.readlink(f"/proc/{pid}/exe"))]
        expect(mpiexec, "mpiexec isn't found")
        for pid in mpiexec:
            os.kill(pid, signal.SIGSTOP)
        live.do("to 0:end")
        expect(not [each for each in live.printed if each["stream"] == "stdout"], f"printed without mpiexec: {live.printed}")
        for pid in mpiexec:
            os.kill(pid, signal.SIGCONT)
        printed = live.whole_output(1)
        expect(printed == out.splitlines(), f"late: printed {printed}, recorded {out}")


def events_in(job, traces, rank):
    """What a rank has sent and received in its order."""
    out, _ = job.run([job.cairn, "causality", "convert", "--to", "lines", *traces, "-"])
    told = [json.loads(line) for line in out.splitlines()]
    return [(each["e"], each.get("from"), each.get("to"), each.get("tag")) for each in told if each.get("p") == rank]


def left(job):
    """The job goes on freely from where it stands; what it comes to is recorded behind what it had come to, and replays. Left again, it goes on from there again."""
    program = program_of(job, "farm")
    out, _ = job.record(RANKS, "farm", program)
    total = out.split("path")[0]
    traces = [f"farm/live/trace.{rank}" for rank in range(RANKS)]
    with Live(job, "farm", program) as live:
        for i, event in enumerate((13, 7)):
            stood = live.do(f"to 0:{event}")
            printed = len(live.printed)
            told = live.do(f"leave left-{i}")
            expect(told["end"] == "exit code 0" and told["event"] == event and told["cut"] == stood["cut"], told)
            lines = [each["line"] for each in live.printed[printed:] if each["stream"] == "stdout"]
            expect(len(lines) == 1 and lines[0].startswith(total), f"left at {event}: printed {lines}, recorded {out}")
            checked, _ = job.run([job.cairn, "mpi", "check", f"left-{i}"])
            again, err = job.replay(RANKS, f"left-{i}", program, options=["--trace", f"left-{i}/trace"])
            expect("whole: each rank came to its end" in checked and order(err) in checked and again.splitlines() == lines, f"left at {event}: {checked}, replayed {again} {err}")
            for rank in range(RANKS):
                count = stood["cut"][rank]
                new, old = (events_in(job, files, rank)[:count] for files in ([f"left-{i}/trace/trace.{each}" for each in range(RANKS)], traces))
                expect(new == old and len(new) == count, f"left at {event}: rank {rank} begins with {new}, recorded {old}")
        expect("has a record already" in live.ask("leave left-0")["error"], "a record is overwritten")
        live.do("reverse-step")
    program = program_of(job, "heat")
    job.record(RANKS, "heat", program)
    with Live(job, "heat", program) as live:
        events, refused = live.do("to 1:end")["event"], 0
        for event in range(1, events, events // 4):
            live.do(f"to 1:{event}")
            told = live.ask(f"leave heat-left-{event}")
            expect(told["ok"] or "stands open here" in told["error"], told)
            refused += not told["ok"]
            if told["ok"]:
                job.replay(RANKS, f"heat-left-{event}", program)
        print(f"heat, {job.mpi}: refused {refused} times to be left", flush=True)
    job.record(RANKS, "threads", [job.program("threads"), "recv_any", "3"])
    with Live(job, "threads", [job.program("threads"), "recv_any", "3"]) as live:
        live.do("to 1:5")
        expect("several threads" in live.ask("leave threads-left")["error"], "a program with threads can be left")
    program = program_of(job, "farm")
    job.record(RANKS, "alone", program, options=["--contents"])
    with Debugger(job, "alone", program) as alone:
        expect("with --live" in alone.ask("leave nowhere")["error"], "a rank alone can be left")


def spawning(job):
    """Processes that the ranks have spawned go back with them, and are no ranks of the record themselves, however `cairn mpi` has been started."""
    program = [job.program("spawn")]
    job.run([job.cairn, "mpi", "record", "--out", "spawn", *job.mpiexec(2), *program])
    expect(sorted(os.listdir(f"{job.folder}/spawn")) == ["rank.0", "rank.1"], os.listdir(f"{job.folder}/spawn"))
    with Live(job, "spawn", program, ranks=2) as live:
        last = live.do("to 0:end")["event"]
        for event in (last - 1, 2, last - 3, last):
            told = live.do(f"to 0:{event}")
            expect(told["event"] == event and where(live)[0]["event"] == event, told)
        printed = live.whole_output(1)
        expect(len(printed) == 1 and printed[0].startswith("sum "), printed)


def with_virtual_ids(job):
    """An ordinary user's restart can't have the old ids, so the ranks have others than they say."""
    program = program_of(job, "farm")
    job.record(RANKS, "farm", program)
    if os.geteuid() == 0:
        subprocess.run(["chown", "-R", "65534:65534", job.folder], check=True)
    user = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"] if os.geteuid() == 0 else []
    lines = "to 0:9\nprint sum\nto 0:3\nto 0:end\nreverse-step\nprint sum\nleave left-by-user\nwhere\n"
    done = subprocess.run([*user, job.cairn, "mpi", "debug", "--json", "--live", "farm", *job.mpiexec(RANKS), *program], cwd=job.folder, env=dict(job.env, HOME=job.folder), input=lines,
                          text=True, capture_output=True, timeout=100, check=False)
    told = [json.loads(line) for line in done.stdout.splitlines()]
    answers = [each for each in told if "ok" in each]
    expect(done.returncode == 0 and all(each["ok"] for each in answers) and len(answers) == 9, f"{done}")
    expect(int(answers[2]["value"]) != int(answers[6]["value"]) and answers[7]["end"] == "exit code 0", answers)


def scratch_of(pid):
    """Which folder in /tmp a debugger has locked."""
    found = set()
    for each in os.listdir(f"/proc/{pid}/fd"):
        try:
            found.add(os.readlink(f"/proc/{pid}/fd/{each}"))
        except FileNotFoundError:  # closed meanwhile
            pass
    found = [each for each in found if each.startswith("/tmp/cairn-mpi-debugger-")]
    expect(len(found) == 1, found)
    return found[0]


def killed(job):
    """A debugger that is killed leaves nobody, and what it leaves on the disk goes with the next one."""
    program = [job.program("paced"), "100"]
    job.record(RANKS, "paced", program, options=["--contents"])
    live = Live(job, "paced", program)
    live.do("to 0:20")
    live.do("to 1:3")
    expect(len(ids_of(job.folder)) > RANKS, "the job isn't found")
    folders = [each for each in os.listdir(f"{job.folder}/paced/live") if each.startswith("job-")]
    scratch = scratch_of(live.process.pid)
    live.process.send_signal(signal.SIGKILL)
    live.process.wait()
    expect(len(folders) == 1, folders)
    deadline = time.monotonic() + 30
    while left := ids_of(job.folder):
        expect(time.monotonic() < deadline, f"still there: {[open(f'/proc/{pid}/cmdline').read() for pid in left]}")
        time.sleep(0.1)
    os.utime(scratch, (0, 0))  # a new one may not be locked yet
    with Live(job, "paced", program) as again:
        again.do("to 0:5")
        expect(not os.path.exists(scratch), f"{scratch} stays")
        own = scratch_of(again.process.pid)
        os.utime(own, (0, 0))
        with Debugger(job, "paced", program) as alone:
            alone.do("to 0:3")
            expect(os.path.exists(own), f"{own} has been removed in use")
        now = [each for each in os.listdir(f"{job.folder}/paced/live") if each.startswith("job-")]
        expect(len(now) == 1 and now != folders, now)
    expect(not [each for each in os.listdir(f"{job.folder}/paced/live") if each.startswith("job-")], "the folder of checkpoints stays")


def page(job):
    """The page moves the whole job, as the terminal does, and is told so; what an event looked like it isn't."""
    program = program_of(job, "heat")
    with Web(job, ["--live", "heat", *job.mpiexec(RANKS), *program]) as web:
        events = Events(web)
        first = events.wait("state")
        expect(first["cut"] == [0] * RANKS and len(first["checkpoints"]) == RANKS, first)
        told = web.command("to 1:20")
        expect(told["ok"] and told["focus"] == 1 and told["event"] == 20, told)
        moved = events.wait("state", lambda each: each["event"] == 20)
        expect(moved["cut"] == told["cut"] and moved["cut"] != first["cut"] and "rank 1" in moved["place"], f"{told}, and pushed {moved}")
        web.console("to 1:7")
        expect(events.wait("said", lambda each: each["line"] == "to 1:7")["terminal"], "who said it")
        back = events.wait("state", lambda each: each["event"] == 7)
        expect(all(behind <= before for behind, before in zip(back["cut"], moved["cut"])), f"{back} behind {moved}")
        status, seen = web.ask("look", event=3)
        expect(status == 200 and not seen["ok"] and "run together" in seen["error"], seen)


def bad_input(job):
    program = program_of(job, "farm")

    def refused(words, *texts):
        done = subprocess.run([job.cairn, "mpi", "debug", "--live", *words], cwd=job.folder, env=job.env, text=True, input="", capture_output=True, timeout=100, check=False)
        expect(done.returncode in (1, 2, 3) and all(text in done.stderr for text in texts), f"{words}: {done}")

    refused(["farm", *program], "3 ranks")
    refused(["nowhere", *job.mpiexec(RANKS), *program], "nowhere/rank.0")
    refused(["--memory", "100", "farm", *program], "--live goes without")
    shutil.rmtree(f"{job.folder}/farm/live")
    refused(["farm", *job.mpiexec(RANKS), job.program("heat")], "another program")
    with Live(job, "farm", program) as live:
        for command in ("watch sum", "verify", "what-if choices", "waits"):
            told = live.ask(command)
            expect(not told["ok"] and "with --live they run together" in told["error"], told)
        expect("ranks are 0 to 2" in live.ask("to 7:1")["error"] and "has" in live.ask("to 0:100000")["error"], "wrong places are taken")
        live.do("to 1:3")


def test(job, given):
    job.env["OMPI_MCA_osc"] = "^ucx"  # Open MPI would take UCX for windows, which has no transport for them without a network
    seed = random.randrange(1 << 32)
    for name in PROGRAMS:
        at_random(job, name, 100 if given.soak else 7, seed)
    one_sided(job, 60 if given.soak else 5, seed)
    late_output(job)
    left(job)
    if job.mpi == "openmpi":  # Debian's MPICH can't spawn, with cairn or without
        spawning(job)
    killed(job)
    page(job)
    bad_input(job)
    with_virtual_ids(job)  # the last: the folder is another user's then
