"""`cairn mpi debug`: movements at random; after each, every process is what a straight run to the same state makes of it (its own data, its
heap, its stack), and the cut is the one that `cairn causality cuts` computes. --soak: more programs, 1,000 movements each."""
import json
import os
import random
import re
import signal
import subprocess
import time

from cairn_test.mpi_debugger import Debugger
from cairn_test.mpi_job import expect

PROGRAMS = {"farm": ["8", "40"], "heat": ["4", "16", "6"]}
SOAK = {"farm": ["60", "400"], "heat": ["8", "32", "30"], "bitonic": ["60"], "race": ["20"], "fortran_f08": [], "fortran_mpi": [], "fortran_77": [], "rows": ["each"], "crossing": ["3"]}
BREAKS = {"fortran_f08": "MPI_Barrier", "fortran_77": "MPI_Barrier", "fortran_mpi": "MPI_Barrier", "farm": "MPI_Recv", "race": "MPI_Recv", "heat": "exchange", "xdlu": "MPI_Send", "ex3": "MPI_Waitall", "ex5": "MPI_Waitall",
          "lmp": "MPI_Send"}


def where(debugger):
    told = debugger.do("where")
    return [{key: each[key] for key in ("rank", "event", "position", "within", "stack", "place")} for each in told["ranks"]], told["ranks"]


def events_of(job, traces):
    """Each process's, in their order."""
    out, _ = job.run([job.cairn, "causality", "convert", "--to", "lines", *traces, "-"])
    events = [[] for _ in traces]
    for line in out.splitlines():
        event = json.loads(line)
        if "p" in event:
            events[event["p"]].append(event)
    return events


def envelope(event):
    return event["from"], event.get("communicator", 0), event.get("tag", 0)


def messages_of(events):
    """Of each process its receives as (position of the posting, position, event, send), in the order of posting, which is that of the sends of their envelope;
    and of each send, as (process, position), where it is received, if it is."""
    sends, received, receipts = {}, [], {}
    for p, of_process in enumerate(events):
        for i, event in enumerate(of_process):
            if event["e"] == "send":
                sends.setdefault((p, event["to"], event.get("communicator", 0), event.get("tag", 0)), []).append((p, i))
                receipts[p, i] = None
    for p, of_process in enumerate(events):
        posts, receives = {}, []
        for i, event in enumerate(of_process):
            if event["e"] == "post":
                posts[event["request"]] = i
            if event["e"] == "receive":
                receives.append((posts.get(event.get("request"), i), i, event))
        receives.sort(key=lambda each: each[0])
        counts, got = {}, []
        for at, i, event in receives:
            source, communicator, tag = envelope(event)
            k = counts[envelope(event)] = counts.get(envelope(event), -1) + 1
            of_channel = sends.get((source, p, communicator, tag), [])
            got.append((at, i, event, of_channel[k] if k < len(of_channel) else None))
            if got[-1][3] is not None:
                receipts[got[-1][3]] = (p, i)
        received.append(got)
    return received, receipts


def probed(events, received):
    """Of each probe that has found a message, as (process, position), whose send it was: the message of the receive that the probe has begun, or of the
    first with its envelope that is posted behind it."""
    found = {}
    for p, of_process in enumerate(events):
        for i, event in enumerate(of_process):
            own = event["e"] == "post" and not event.get("asks") and not event.get("for_collective")
            if "from" not in event or not (own or event["e"] == "internal"):
                continue
            mine = next((sent for at, _, other, sent in received[p] if (at == i if own else at > i and envelope(other) == envelope(event))), None)
            if mine is not None:
                found[p, i] = mine
    return found


class Cuts:
    """`cairn causality cuts`, which doesn't know that a probe comes behind the send of the message that it has found: these sends are added."""

    def __init__(self, job, traces):
        self.job, self.traces, self.known = job, traces, {}
        events = events_of(job, traces)
        received, self.receipts = messages_of(events)
        self.probed = probed(events, received)

    def behind(self, process, position):
        if (process, position) not in self.known:
            out, _ = self.job.run([self.job.cairn, "causality", "cuts", "--json", "--most", "1", "--after", f"{process}:{position}", *self.traces])
            self.known[process, position] = json.loads(out)["earliest_after"]
        return self.known[process, position]

    def in_transit(self, cut):
        return sum(i < cut[p] and (to is None or to[1] >= cut[to[0]]) for (p, i), to in self.receipts.items())

    def earliest_after(self, process, position):
        cut, more = self.behind(process, position), True
        while more:
            more = False
            for (p, i), (q, j) in self.probed.items():
                if i < cut[p] and j >= cut[q]:
                    cut, more = list(map(max, cut, self.behind(q, j))), True
        return cut


class Straight:
    """Where another debugger's ranks stand that have run from the beginning to there, without a checkpoint."""

    def __init__(self, job, name, program):
        self.debugger, self.known = Debugger(job, name, program, ["--checkpoints", "0"]), {}

    def at(self, rank, event):
        if (rank, event) not in self.known:
            self.debugger.do(f"to {rank}:{event}")
            self.known[rank, event] = where(self.debugger)[0]
        return self.known[rank, event]

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.debugger.__exit__(*error)


def movement(chance, ranks, events):
    kind = chance.choice(["to", "to", "step", "reverse-step", "forward", "back", "continue", "reverse-continue", "focus"])
    if kind == "to":
        rank = chance.randrange(ranks)
        return f"to {rank}:{chance.randrange(events[rank] + 1)}"
    if kind in ("step", "reverse-step"):
        return f"{kind} {chance.choice([1, 1, 2, 7])}"
    return f"focus {chance.randrange(ranks)}" if kind == "focus" else kind


def at_random(job, name, program, ranks, count, seed, every=2, again_every=1):
    """`every`: calls between two checkpoints. `again_every`: after each so many movements all is also held against another debugger, which has gone there
    straight; `verify` does so after each, to the bit, and with the stack that is in that memory."""
    chance = random.Random(seed)
    refused = compared = cuts = transit = 0
    # With copies of copies.
    with Debugger(job, name, program, ["--every", str(every), "--checkpoints", "6"]) as debugger, Straight(job, name, program) as straight:
        traces = [f"{name}/debug/trace.{rank}" for rank in range(ranks)]
        events = [debugger.do(f"to {rank}:end")["event"] for rank in range(ranks)]
        known = Cuts(job, traces)
        debugger.do(f"break {BREAKS.get(name, 'main')}")
        for i in range(count):
            command = movement(chance, ranks, events)
            what = f"{name}: {command}, seed {seed}"
            told = debugger.ask(command)
            refused += not told["ok"]
            expect(told["ok"] or "rank" in told["error"], f"{what}: {told}")
            place = debugger.do("cut")
            moved = told["ok"] and not command.startswith("focus")  # else the others may stand for another one in focus
            if moved and place["position"] > 0:
                earliest = known.earliest_after(place["focus"], place["position"] - 1)
                expect(earliest == place["cut"], f"{what}: {place['cut']}, but {earliest}")
                cuts += 1
            messages = debugger.do("transit")["messages"]
            expect(len(messages) == known.in_transit(place["cut"]), f"{what}: {messages}, but {known.in_transit(place['cut'])} are in transit")
            transit += len(messages)
            reached, _ = where(debugger)
            expect([each["position"] for each in reached] == place["cut"], f"{what}: {place['cut']}, but it stands at {reached}")
            memory = debugger.do("verify")
            expect(memory["differences"] == [] and memory["bytes"] > ranks << 20, f"{what}: {memory}")
            compared += memory["bytes"]
            if i % again_every != 0:
                continue
            # In the middle of a call nobody is sent by its number.
            again = straight.at(place["focus"], place["event"])
            if moved and again[place["focus"]]["position"] == place["position"]:
                expect(reached == again, f"{what}: {reached}, straight {again}")
        kept = sum(len(each["events"]) for each in debugger.do("checkpoints")["ranks"])
    print(f"{name}, {job.mpi}, seed {seed}: {count} movements, {refused} of them nowhere, {cuts} cuts, {transit} messages in transit, {compared >> 20} MB compared, {kept} checkpoints at the end", flush=True)
    # Of a few it's a matter of chance how many lead nowhere.
    expect(refused < (count / 2 if count >= 100 else count - 1) and kept > ranks, "hardly anything was tried")


def falsified(job, name, program):
    """A state that isn't what it should be is seen."""
    with Debugger(job, name, program) as debugger:
        debugger.do("to 0:5")
        _, full = where(debugger)
        with open(f"/proc/{full[0]['pid']}/mem", "r+b", 0) as mem:
            mem.seek(full[0]["frame"] + 256)
            byte = mem.read(1)
            mem.seek(full[0]["frame"] + 256)
            mem.write(bytes([byte[0] ^ 1]))
        differences = debugger.do("verify")["differences"]
        expect([each["rank"] for each in differences] == [0] and "[stack]" in differences[0]["where"], differences)


def to_nobody(job):
    """Who stands in a collective that others have left stands in that call, also if the call before has ended with what goes to nobody and is no event; and
    whether it came from behind that call or from before it."""
    program = [job.program("nobody")]
    job.record(2, "nobody", program, options=["--contents"])
    for before, collective in ((1, 2), (5, 4), (9, 6)):
        for way in ([], [f"to 1:{before}"]):
            with Debugger(job, "nobody", program) as debugger:
                for command in [*way, f"to 0:{collective}"]:
                    debugger.do(command)
                _, full = where(debugger)
                expect((full[1]["event"], full[1]["within"]) == (before + 1, True) and full[1]["stack"] == full[0]["stack"], f"{way}, to 0:{collective}: {full}")
                memory = debugger.do("verify")
                expect(memory["differences"] == [], f"{way}, to 0:{collective}: {memory}")


def stays_straight(job, name, every, commands):
    """Behind each of these commands a process alone is what a straight run makes of it."""
    program = [job.program(name)]
    job.record(1, name, program, options=["--contents"])
    with Debugger(job, name, program, ["--every", str(every)]) as debugger:
        for command in commands:
            debugger.do(command)
            memory = debugger.do("verify")
            expect(memory["differences"] == [], f"{name}, {command}: {memory}")


def without_given_up(events):
    """The events of a rank, and the messages of receives that its program has given up (MPI_Request_free): in which later call one of these is seen to have
    come is a matter of chance, alone it is where it was seen while it was recorded."""
    given_up = [each for each in events if each["e"] == "receive" and "request" in each and not each["call"].startswith(("MPI_Wait", "MPI_Test", "MPI_Start"))]
    kept = [each for each in events if each not in given_up]
    if given_up:  # it may have been the first of its call
        kept = [{key: value for key, value in each.items() if key != "joined"} for each in kept]
    return kept, sorted((each["request"], each["from"], each["tag"]) for each in given_up)


def same_trace(job, name, program, ranks):
    """Alone they write the trace that all together write."""
    job.replay(ranks, name, program, (0, 1), options=["--trace", f"{name}-together"])
    told = []
    for folder in (f"{name}/debug", f"{name}-together"):
        events = events_of(job, [f"{folder}/trace.{rank}" for rank in range(ranks)])
        for event in (each for of_rank in events for each in of_rank):
            event.pop("time", None)
            event.pop("took", None)
            # Sends that are complete at once share a handle in MPICH; alone each has its own.
            if event["e"] == "complete" or ("to" in event and "request" in event):
                event.pop("request")
        told.append(events)
    for rank, both in enumerate(zip(*told)):
        (alone, unseen), (together, also) = map(without_given_up, both)
        expect(unseen == also, f"{name}: rank {rank}: given up and received alone {unseen}, together {also}")
        for i, (one, other) in enumerate(zip(alone, together)):
            expect(one == other, f"{name}: rank {rank}, event {i} of the trace: alone {one}, together {other}")
        expect(len(alone) == len(together) > 0, f"{name}: rank {rank}: {len(alone)} events alone, {len(together)} together")


def answers(job, name, program, commands, code=0):
    """A script of commands from a pipe: what each of them says."""
    done = subprocess.run([job.cairn, "mpi", "debug", "--json", name, *program], cwd=job.folder, env=job.env, input="\n".join(commands) + "\n",
                          text=True, capture_output=True, timeout=job.deadline, check=False)
    expect(done.returncode == code, f"{name}: exit code {done.returncode}\n{done.stdout}\n{done.stderr}")
    told = [json.loads(line) for line in done.stdout.splitlines()]
    said = [each for each in told if "ok" in each]
    expect(code != 0 or len(said) == len(commands) + 1, f"{name}: {done.stdout}")
    return said, done.stderr


def planted(job):
    """From the symptom to the line, by a script for each bug."""
    program = [job.program("planted")]

    def find(what, ranks, commands):
        job.record(ranks, what, [*program, what], options=["--contents"])
        said, _ = answers(job, what, [*program, what], commands)
        return said

    # Two senders: the result was made of rank 2's message first.
    said = find("race", 3, ["to 0:end", "print result", "to 0:2", "watch result", "why"])
    expect(said[2]["value"] == "21" and (said[4]["before"], said[4]["after"]) == ("0", "20"), said)
    expect("planted.c" in said[4]["at"] and "(race)" in said[4]["at"] and said[4]["event"] == 1, said)
    expect(said[5]["chain"][0]["from"]["rank"] == 2, said)
    # A tag of another question: the answer came from where rank 1 had received question 3, and still had 2.
    said = find("tag", 2, ["to 0:end", "watch answers[2]", "back", "print asked"])
    expect((said[2]["before"], said[2]["after"]) == ("4", "9") and "(tag)" in said[2]["at"], said)
    expect(said[3]["focus"] == 1 and "tag 3" in said[3]["place"] and said[4]["value"] == "2", said)
    # A buffer that is still being sent.
    said = find("buffer", 2, ["to 0:1", "back", "to 1:2", "watch buffer[5]"])
    expect("MPI_Isend" in said[2]["said"] and (said[4]["before"], said[4]["after"]) == ("1", "0"), said)
    expect("(overwrite)" in said[4]["at"] and said[4]["event"] == 1, said)
    # Three messages upstream.
    said = find("upstream", 4, ["to 0:end", "back", "back", "back", "print part[1]", "watch part[1]"])
    expect([each["focus"] for each in said[2:5]] == [3, 2, 1] and said[5]["value"] == "100", said)
    expect(said[6]["after"] == "100" and re.search(r"planted.c:\d+ \((upstream|damage)\)", said[6]["at"]), said)
    # With another value: as far as the record goes along.
    said, _ = answers(job, "upstream", [*program, "upstream"], ["to 1:1", "what-if part[1] = 1 ; part[1]", "what-if size = 1", "to 0:2", "what-if value=50;result",
                                                               "what-if value == 50", "what-if nosuch = 1", "what-if", "print value"])
    expect((said[2]["with"], said[2]["without"], said[2]["departs"], said[2]["event"]) == ("1", "100", False, 3), said)
    expect(said[3]["departs"] and said[3]["event"] == 2 and "now:      MPI_Send, rank 0" in said[3]["how"], said)
    expect((said[5]["prints"], said[5]["instead_of"], said[5]["with"], said[5]["before"]) == (["result 50"], ["result 103"], "50", "103"), said)
    expect(all(not each["ok"] and text in each["error"] for each, text in zip(said[6:], ("which value", "No symbol", "VARIABLE = VALUE"))), said)
    expect(said[9]["value"] == "103", said)
    said, _ = answers(job, "tag", [*program, "tag"], ["to 1:4", "what-if asked = 4"])
    expect(said[2]["departs"], said)
    # The example of the paper: from M's receipt back to e, the others right behind their sends 3 and 4.
    said = find("paper", 3, ["to 0:4", "back", "transit", "forward", "forward"])
    expect(said[2]["focus"] == 1 and said[2]["cut"] == [3, 5, 4] and len(said[3]["messages"]) == 8, said)
    expect(said[4]["focus"] == 0 and said[4]["event"] == 4 and said[5]["focus"] == 2, said)


def killed(job):
    """Records that break off: a deadlock, a crash."""
    program = [job.program("planted"), "order"]
    record = [*job.mpiexec(2), job.cairn, "mpi", "record", "--contents", "--out", "order", *program]
    with subprocess.Popen(record, cwd=job.folder, env=job.env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True) as running:
        # Both are in their receive when the record says nothing new.
        before, deadline = None, time.monotonic() + job.deadline
        while time.monotonic() < deadline:
            time.sleep(0.5)
            done = subprocess.run([job.cairn, "mpi", "check", "--json", "order"], cwd=job.folder, capture_output=True, text=True, check=False)
            now = json.loads(done.stdout)["events"] if done.returncode == 0 else None
            if now == before and now == 4:
                break
            before = now
        os.killpg(running.pid, signal.SIGKILL)
    said, _ = answers(job, "order", program, ["waits", "to 0:end", "where"])
    expect(sorted(said[1]["circle"]) == [0, 1] and said[1]["ranks"][0]["for"] == [1] and "MPI_Recv" in said[1]["ranks"][0]["in"], said)
    expect(said[2]["event"] == 1 and "MPI_Barrier" in said[2]["place"], said)
    program = [job.program("planted"), "crash"]
    job.run([*job.mpiexec(2), job.cairn, "mpi", "record", "--contents", "--out", "crash", *program], code=None)
    said, _ = answers(job, "crash", program, ["waits", "to 1:end", "where", "back"])
    expect("signal 11" in said[0]["notes"] and "signal 11" in said[1]["ranks"][1]["end"], said)
    expect(said[2]["event"] == 1 and said[4]["focus"] == 0, said)


def bad_input(job):
    farm = [job.program("farm"), *PROGRAMS["farm"]]
    job.record(3, "order-only", farm)
    _, err = answers(job, "order-only", farm, [], code=3)
    expect("record it with --contents" in err, err)
    job.record(3, "small", farm, options=["--contents"])
    _, err = answers(job, "small", [job.program("heat")], [], code=3)
    expect("is a record of another program" in err and err.count("\n") == 1, err)
    _, err = answers(job, "nowhere", farm, [], code=1)
    expect("nowhere/rank.0" in err, err)
    said, _ = answers(job, "small", farm, ["to 9:1", "to 0:1000", "nothing", "to 0:nosuch.c:4", "print nosuch", "step x", "focus 7", "back", "to 0:end", "forward"])
    wrong = ("ranks are 0 to 2", "has 19 events", "no command 'nothing'", "no event nosuch.c:4", "No symbol", "how many", "ranks are 0 to 2",
             "has received no message")
    expect(all(not each["ok"] and text in each["error"] for each, text in zip(said[1:], wrong)), said)
    expect(said[9]["ok"] and "has sent nothing" in said[10]["error"], said)
    # Another path than recorded: it works up to there.
    job.record(3, "other", farm, options=["--contents"])
    said, _ = answers(job, "other", [job.program("farm"), "4", PROGRAMS["farm"][1]], ["to 0:end", "where", "reverse-step"])
    expect("departs from its record" in said[0]["notes"] and said[1]["event"] > 4 and all(each["ok"] for each in said), said)
    os.truncate(f"{job.folder}/small/rank.1", 900)
    _, err = answers(job, "small", farm, [], code=4)
    expect("rank.1" in err and ("cut off" in err or "damaged" in err), err)


def nobody_stays(job, name, program):
    """What prints is shown once; a killed debugger leaves nobody behind."""
    debugger = Debugger(job, name, program, ["--every", "2"])
    for command in ("to 0:end", "to 0:3", "to 0:end", "to 1:end", "reverse-step 3", "to 0:end"):
        debugger.do(command)
    expect([each["line"] for each in debugger.printed] == job.run([job.cairn, "mpi", "replay", "--rank", "0", name, *program])[0].splitlines(),
           debugger.printed)
    debugger.do("where")
    with open(f"/proc/{debugger.process.pid}/task/{debugger.process.pid}/children", encoding="ascii") as file:
        children = file.read().split()
    expect(len(children) > 6, children)
    debugger.process.kill()
    debugger.__exit__()
    deadline = time.monotonic() + 10
    while any(os.path.exists(f"/proc/{pid}") for pid in children):
        expect(time.monotonic() < deadline, f"{children} are still there")
        time.sleep(0.02)


def no_more_than_wished(job):
    """Where there is room for few checkpoints no more are taken than where there is room for many."""
    program = [job.program("steady"), "300", "1"]
    job.record(2, "steady", program, options=["--contents"])
    with Debugger(job, "steady", program, ["--every", "20", "--checkpoints", "3"]) as debugger:
        events = debugger.do("to 0:end")["event"]
        checkpoints = debugger.do("checkpoints")["ranks"][0]
        expect(events >= 600 and 3 < checkpoints["taken"] <= events // 20 and len(checkpoints["events"]) == 4, checkpoints)
        expect(max(checkpoints["events"]) > events - 40, f"the last isn't kept: {checkpoints}")


def test(job, given):
    no_more_than_wished(job)
    seed = random.randrange(1 << 32)
    for name, arguments in (SOAK if given.soak else PROGRAMS).items():
        ranks = 4 if name in ("bitonic", "rows") else 3
        program = [job.program(name), *arguments]
        job.record(ranks, name, program, (0, 1), options=["--contents"])  # 1: the race's result is wrong
        at_random(job, name, program, ranks, 1000 if given.soak else 12, seed, 5 if given.soak else 2, 10 if given.soak else 1)
        same_trace(job, name, program, ranks)
    falsified(job, "farm", [job.program("farm"), *(SOAK if given.soak else PROGRAMS)["farm"]])
    nobody_stays(job, "farm", [job.program("farm"), *(SOAK if given.soak else PROGRAMS)["farm"]])
    to_nobody(job)
    # A heap that has grown in copies of copies is the same as one that has grown at once, whatever mappings the kernel makes of it.
    stays_straight(job, "grown", 3, ("to 0:end", "to 0:5", "to 0:8", "reverse-step", "to 0:end"))
    # Who has stood at an event goes on with the registers that it had, so that what is left of them on the stack is that of a straight run.
    stays_straight(job, "residue", 1, ("to 0:1", "step", "step", "to 0:1", "to 0:3", "reverse-step"))
    if job.mpi == "mpich" or given.soak:  # nothing in these depends on the MPI
        planted(job)
        killed(job)
        bad_input(job)
