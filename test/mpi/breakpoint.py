"""`cairn mpi break` stops every process at the earliest state consistent with an event: where `cairn causality cuts` says, and, where
probes found messages, where a search through the trace here says. `continue` goes to the next. --soak: for every event of every
rank of small runs."""
import collections
import contextlib
import json
import os
import signal
import subprocess
import time

from cairn_test.mpi_job import expect

RANKS = 3
PROGRAMS = {"farm": ["5", "10"], "heat": ["2", "8", "3"], "bitonic": ["20"]}


def where(job, name):
    done = subprocess.run([job.cairn, "mpi", "where", "--json", name], cwd=job.folder, text=True, capture_output=True, check=False)
    return done.returncode == 0, json.loads(done.stdout or "[]"), done.stderr


class Stopped:
    """A job at a breakpoint; it is ended in the end."""

    def __init__(self, job, name, program, ranks, rank, at):
        self.job, self.name, self.what = job, name, f"{name}: rank {rank}, event {at}"
        stopped = f"{job.folder}/{name}/stopped"
        if os.path.isdir(stopped):
            for file in os.listdir(stopped):
                os.unlink(f"{stopped}/{file}")
        self.output = f"{job.folder}/output"
        with open(self.output, "w", encoding="utf-8") as output:
            self.running = subprocess.Popen([*job.mpiexec(ranks), job.cairn, "mpi", "break", "--rank", str(rank), "--at", str(at), name,
                                             *program], cwd=job.folder, env=job.env, stdout=output, stderr=output, start_new_session=True)

    def told(self):
        with open(self.output, encoding="utf-8") as output:
            return output.read()

    def state(self, stop=1):
        """Where the processes stand when all have come to this breakpoint."""
        deadline = time.monotonic() + 100
        while True:
            there, state, err = where(self.job, self.name)
            if there and all(each["stop"] == stop for each in state):
                return state
            expect(self.running.poll() is None, f"{self.what}: the job ended\n{self.told()}")
            expect(time.monotonic() < deadline, f"{self.what}: {err} {state}\n{self.told()}")
            time.sleep(0.02)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        # mpiexec ends by itself when its processes are gone.
        for each in where(self.job, self.name)[1]:
            if each.get("stopped"):
                with contextlib.suppress(ProcessLookupError):  # mpiexec was first
                    os.kill(each["pid"], signal.SIGKILL)
        try:
            self.running.wait(10)
        except subprocess.TimeoutExpired:
            os.killpg(self.running.pid, signal.SIGKILL)
            self.running.wait()


def causes_of(events):
    """For each event of each process, what must have happened before it elsewhere: (process, number of its events)."""
    sends, receives, collectives = (collections.defaultdict(list) for _ in range(3))
    posted = [{} for _ in events]
    for p, mine in enumerate(events):
        counted = collections.Counter()
        for i, event in enumerate(mine):
            kind, comm, tag = event["e"], event.get("communicator", 0), event.get("tag", 0)
            if kind == "post":
                posted[p][event["request"]] = i
            if kind == "send":
                sends[comm, p, event["to"], tag].append(i)
            if kind == "receive":
                receives[comm, event["from"], p, tag].append((posted[p].get(event.get("request"), i), i))
            if kind == "collective":
                collectives[comm, counted[comm]].append((p, i))
                counted[comm] += 1
    causes = [[[] for _ in mine] for mine in events]
    for channel, got in receives.items():
        for (post, i), sent in zip(sorted(got), sends[channel]):
            causes[channel[2]][i].append((channel[1], sent + 1))
    for members in collectives.values():
        for p, i in members:
            causes[p][i] += [(q, j) for q, j in members if q != p]
    for p, mine in enumerate(events):
        for i, event in enumerate(mine):
            if "from" not in event or event["e"] == "receive":
                continue
            # A probe: the message that the next receive posted from here gets.
            channel = (event.get("communicator", 0), event["from"], p, event.get("tag", 0))
            later = sorted((post, at) for post, at in receives[channel] if post >= i)
            if later:
                causes[p][i] += causes[p][later[0][1]]
    return causes


def earliest(causes, rank, last):
    cut = [0] * len(causes)
    todo = [(rank, last + 1)]
    while todo:
        p, count = todo.pop()
        for i in range(cut[p], count):
            todo += causes[p][i]
        cut[p] = max(cut[p], count)
    return cut


def traced(job, name, ranks):
    """The events of each process. Collectives of every shape as all for all, as the breakpoint takes them."""
    lines, _ = job.run([job.cairn, "causality", "convert", "--to", "lines", *[f"{name}/trace.{rank}" for rank in range(ranks)], "-"])
    events = [[] for _ in range(ranks)]
    with open(f"{job.folder}/all.jsonl", "w", encoding="utf-8") as file:
        for line in lines.splitlines():
            event = json.loads(line)
            if event.get("e") == "collective":
                event["shape"] = "all"
                event.pop("root", None)
            if "p" in event:
                events[event["p"]].append(event)
            file.write(json.dumps(event) + "\n")
    return events


def every_event(job, given):
    for name, arguments in PROGRAMS.items():
        ranks = 4 if name == "bitonic" else RANKS
        program = [job.program(name), *arguments]
        job.record(ranks, name, program)
        job.replay(ranks, name, program, options=["--trace", name])
        events = traced(job, name, ranks)
        causes = causes_of(events)
        checked = probes = 0
        for rank in range(ranks):
            firsts = [i for i, event in enumerate(events[rank]) if not event.get("joined")]
            ends = [*firsts[1:], len(events[rank])]
            calls = list(enumerate(zip(firsts, ends), 1))
            found = [call for call, (first, _) in calls if events[rank][first]["e"] == "internal" and "from" in events[rank][first]]
            for call, (first, end) in calls:
                chosen = found[:1] if name == "bitonic" else [1, 1 + len(calls) // 2]
                if not given.soak and call not in chosen:
                    continue
                expected = earliest(causes, rank, end - 1)
                if name != "bitonic":
                    out, _ = job.run([job.cairn, "causality", "cuts", "--json", "--most", "1", "--after", f"{rank}:{end - 1}", "all.jsonl"])
                    expect(json.loads(out)["earliest_after"] == expected, f"{name}: rank {rank}, event {call}: {expected}, but {out}")
                with Stopped(job, name, program, ranks, rank, call) as stopped:
                    state = stopped.state()
                reached = [each["position"] for each in state]
                expect(reached == expected, f"{name}: rank {rank}, event {call}: stands at {reached}, the trace says {expected}")
                expect(all(each["stack"] for each in state), f"no stack: {state}")
                checked += 1
                probes += call in found
        print(f"{name}: {checked} breakpoints, {probes} of them behind a probe that found a message")
        expect(checked > 2 and (probes > 0 or name != "bitonic"), "nothing is checked")


def going_on(job):
    """By place; gdb; the next pass, another process's event, the end."""
    farm = [job.program("farm"), *PROGRAMS["farm"]]
    events = traced(job, "farm", RANKS)
    causes = causes_of(events)
    with Stopped(job, "farm", farm, RANKS, 0, "master:6") as stopped:
        state = stopped.state()
        expect(any("farm.c" in frame and "master" in frame for frame in state[0]["stack"]), state)
        text, _ = job.run([job.cairn, "mpi", "where", "farm"])
        command = next(line for line in text.splitlines() if line.startswith("rank 0:")).split(", ")[-1]
        expect(command == f"gdb -p {state[0]['pid']}", text)
        told = subprocess.run([*command.split(), "-batch", "-ex", "backtrace"], text=True, capture_output=True, check=False).stdout
        expect("in master (" in told and "farm.c:" in told, f"{command}: {told}")
        expect("all stand at the breakpoint" in stopped.told() and "rank 2: event" in stopped.told(), stopped.told())
        told, _ = job.run([job.cairn, "mpi", "continue", "farm"])
        expect(all(f"rank {rank}: event" in told for rank in range(RANKS)), f"continue came back before all stood:\n{told}")
        now = [each["position"] for each in stopped.state(2)]
        expect(now == earliest(causes, 0, now[0] - 1) and now[0] == state[0]["position"] + 1, f"{state}, then {now}")
        at = next(i for i, event in enumerate(events[1]) if event.get("call") == "MPI_Finalize")
        job.run([job.cairn, "mpi", "continue", "--rank", "1", "--at", str(at), "farm"])
        then = [each["position"] for each in stopped.state(3)]
        expect(then == [max(a, b) for a, b in zip(now, earliest(causes, 1, at - 1))], f"{now}, then {then}")
        _, err = job.run([job.cairn, "mpi", "continue", "--rank", "1", "--at", "1", "farm"], code=3)
        expect("is behind event 1 already" in err, err)
        job.run([job.cairn, "mpi", "continue", "--end", "farm"])
        expect(stopped.running.wait(60) == 0, stopped.told())
        expect("farm: sum" in stopped.told() and "replayed 3 ranks" in stopped.told(), stopped.told())
    _, err = job.run([job.cairn, "mpi", "continue", "farm"], code=3)
    expect("doesn't stand at the breakpoint" in err, err)
    _, err = job.run([job.cairn, "mpi", "break", "--rank", "0", "--at", "nowhere.c:1", "farm", job.program("farm")], code=3)
    expect("rank 0 has no event nowhere.c:1" in err, err)
    # Not by a name that is nearly right, which is said once and not by each rank.
    _, err = job.run([*job.mpiexec(RANKS), job.cairn, "mpi", "break", "--rank", "0", "--at", "mastre:3", "farm", job.program("farm")], code=None)
    expect(err.count("did you mean master") == 1, err)
    # By what is called.
    with Stopped(job, "farm", farm, RANKS, 1, "MPI_Send:1") as stopped:
        sent = next(i for i, event in enumerate(events[1]) if event.get("call") == "MPI_Send")
        expect([each["position"] for each in stopped.state()] == earliest(causes, 1, sent), stopped.told())


def test(job, given):
    every_event(job, given)
    going_on(job)
