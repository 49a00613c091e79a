#!/usr/bin/python3
"""`cairn mpi break` stops every process where `cairn causality cuts` says: at the earliest state consistent with an event. --soak: for
every event of every rank of small runs."""
import contextlib
import json
import os
import signal
import subprocess
import time

from mpi_job import expect, main

RANKS = 3
PROGRAMS = {"farm": ["5", "10"], "heat": ["2", "8", "3"], "bitonic": ["20"]}


def where(job, name):
    done = subprocess.run([job.cairn, "mpi", "where", "--json", name], cwd=job.folder, text=True, capture_output=True, check=False)
    return done.returncode == 0, json.loads(done.stdout or "[]"), done.stderr


def stop_at(job, name, program, ranks, rank, at):
    """Where the processes stand. The job is ended."""
    stopped = f"{job.folder}/{name}/stopped"
    if os.path.isdir(stopped):
        for file in os.listdir(stopped):
            os.unlink(f"{stopped}/{file}")
    with open(f"{job.folder}/output", "w", encoding="utf-8") as output:
        running = subprocess.Popen([*job.mpiexec(ranks), job.cairn, "mpi", "break", "--rank", str(rank), "--at", str(at), name,
                                    *program], cwd=job.folder, env=job.env, stdout=output, stderr=output, start_new_session=True)
    try:
        deadline = time.monotonic() + 100
        while True:
            there, state, err = where(job, name)
            if there:
                return state
            with open(f"{job.folder}/output", encoding="utf-8") as output:
                told = output.read()
            expect(running.poll() is None, f"{name}: rank {rank}, event {at}: the job ended\n{told}")
            expect(time.monotonic() < deadline, f"{name}: rank {rank}, event {at}: {err} {state}\n{told}")
            time.sleep(0.02)
    finally:
        # mpiexec ends by itself when its processes are gone.
        for each in where(job, name)[1]:
            if each.get("stopped"):
                with contextlib.suppress(ProcessLookupError):  # mpiexec was first
                    os.kill(each["pid"], signal.SIGKILL)
        try:
            running.wait(10)
        except subprocess.TimeoutExpired:
            os.killpg(running.pid, signal.SIGKILL)
            running.wait()


def test(job, given):
    for name, arguments in PROGRAMS.items():
        ranks = 4 if name == "bitonic" else RANKS
        program = [job.program(name), *arguments]
        job.record(ranks, name, program)
        job.replay(ranks, name, program, options=["--trace", name])
        traces = [f"{name}/trace.{rank}" for rank in range(ranks)]
        # Collectives of every shape as all for all, as the breakpoint takes them.
        lines, _ = job.run([job.cairn, "causality", "convert", "--to", "lines", *traces, "-"])
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
        checked = 0
        for rank in range(ranks):
            firsts = [i for i, event in enumerate(events[rank]) if not event.get("joined")]
            for call, first in enumerate(firsts, 1):
                # The last one is in MPI_Finalize, behind which there is nothing to stand at.
                if not given.soak and (name == "bitonic" or call % max(2, len(firsts) // 2) != 1):
                    continue
                # Between a probe and its receive is no breakpoint (docs/mpi.md).
                if name == "bitonic" and events[rank][first]["e"] != "receive":
                    continue
                last = (firsts + [len(events[rank])])[call] - 1
                out, _ = job.run([job.cairn, "causality", "cuts", "--json", "--most", "1", "--after", f"{rank}:{last}", "all.jsonl"])
                expected = json.loads(out)["earliest_after"]
                state = stop_at(job, name, program, ranks, rank, call)
                reached = [each["position"] for each in state]
                expect(reached == expected, f"{name}: rank {rank}, event {call}: stands at {reached}, causality says {expected}")
                expect(all(each["stack"] for each in state) , f"no stack: {state}")
                checked += 1
        print(f"{name}: {checked} breakpoints")
    state = stop_at(job, "farm", [job.program("farm"), *PROGRAMS["farm"]], RANKS, 0, "master:6")
    expect(any("farm.c" in frame and "master" in frame for frame in state[0]["stack"]), state)
    _, err = job.run([job.cairn, "mpi", "break", "--rank", "0", "--at", "nowhere.c:1", "farm", job.program("farm")], code=1)
    expect("rank 0 has no event nowhere.c:1" in err, err)


main(test)
