"""`cairn mpi debug --images`: a debugger that was killed leaves images of the ranks behind, and the next one goes on from them, bit for bit as a
straight run, to a recovery line as well; images of another program, damaged, half-written, too large or without room are told of, and cost nothing but the way."""
import copy
import glob
import os
import random
import shutil
import signal
import subprocess
import time

from cairn_test.mpi_debugger import Debugger
from cairn_test.mpi_job import expect

OPTIONS = ["--images", "400", "--back-within", "0.02"]
FROM = "from the image behind event"


def images(debugger, rank):
    return debugger.do("checkpoints")["ranks"][rank]["images"]


def said(debugger):
    return [each["line"] for each in debugger.printed if each["line"].startswith("cairn mpi: ")]


def make_some(debugger, rank, events, enough=3):
    """Until there are enough, by going there and back; on a busy machine that takes long to write one they are farther apart, and two will do."""
    begin, deadline = time.monotonic(), time.monotonic() + 100
    while len(images(debugger, rank)) < (enough if time.monotonic() < begin + 15 else 2):
        expect(time.monotonic() < deadline, f"{debugger.do('checkpoints')}: no more images come, {said(debugger)}")
        debugger.do(f"to {rank}:{events}")
        debugger.do(f"to {rank}:{random.randrange(events)}")


def folder(name, rank, event):
    return f"{name}/debug/images/{rank}-{event}"


def restored(job, name, program, straight):
    """Another debugger stands where a straight run stands."""
    with Debugger(job, name, program, ["--back-within", "0.02"]) as debugger:
        kept = images(debugger, 0)
        for event in (kept[-1] + 3, kept[1], kept[-1] - 1):
            debugger.do(f"to 0:{event}")
            expect(debugger.do("print path")["value"] == straight[event], f"event {event}: {debugger.do('print path')}, straight {straight[event]}")
            expect(debugger.do("verify")["differences"] == [], f"event {event}")
        expect(any(FROM in each for each in said(debugger)), said(debugger))
        expect(not any("can't" in each for each in said(debugger)), said(debugger))
        # Of what came back, copies are copied as of any other.
        debugger.do("reverse-step 2")
        debugger.do("to 0:end")
        return debugger.lines(0)


def cut_off(job, name, event):
    path = max(glob.glob(f"{job.folder}/{folder(name, 0, event)}/latest/*.image"), key=os.path.getsize)
    os.truncate(path, os.path.getsize(path) // 2)


def damaged(job, name, program, straight, kept):
    """Goes on from the one before."""
    cut_off(job, name, kept[-1])
    with Debugger(job, name, program, ["--back-within", "0.02"]) as debugger:
        debugger.do(f"to 0:{kept[-1] + 3}")
        expect(debugger.do("print path")["value"] == straight[kept[-1] + 3], "another value")
        expect(any("can't be brought back" in each for each in said(debugger)) and any(FROM in each for each in said(debugger)) == (len(kept) > 2), said(debugger))
    # That of the beginning: as if there were none.
    cut_off(job, name, 0)
    with Debugger(job, name, program, ["--back-within", "0.02"]) as debugger:
        debugger.do(f"to 0:{kept[-1] + 3}")
        expect(debugger.do("print path")["value"] == straight[kept[-1] + 3], "another value")
        expect(not any(FROM in each for each in said(debugger)), said(debugger))
    shutil.rmtree(f"{job.folder}/{name}/debug/images")


def killed_while_making(job, name, program, rounds):
    """What is there is whole, whenever it ends."""
    for _ in range(rounds):
        debugger = Debugger(job, name, program, OPTIONS)
        debugger.process.stdin.write("to 0:end\nto 0:10\nto 0:end\n")
        debugger.process.stdin.flush()
        time.sleep(random.uniform(0, 1.5))
        debugger.process.kill()
        debugger.__exit__()
        with Debugger(job, name, program, ["--back-within", "0.02"]) as after:
            after.do("to 0:end")
            expect(not any("can't" in each for each in said(after)), said(after))
    # Who was killed in the middle has left a part, which goes.
    os.makedirs(f"{job.folder}/{name}/debug/images/.new.1/x")
    with Debugger(job, name, program, OPTIONS):
        expect(glob.glob(f"{job.folder}/{name}/debug/images/.new.1*") == [], "it is still there")


def stale(job, name, program):
    other = [*program[:-1], str(int(program[-1]) + 1)]
    with Debugger(job, name, other) as debugger:
        expect("of another record, program, arguments or cairn: they aren't used" in debugger.hello["notes"], debugger.hello)
        expect(images(debugger, 0) == [], "they are used")
    with Debugger(job, name, program, OPTIONS) as first, Debugger(job, name, program, OPTIONS) as second:
        expect("another debugger makes them" in second.hello["notes"] and first.hello["notes"] == "", second.hello)
    with Debugger(job, name, other, OPTIONS) as debugger:
        expect("they are removed" in debugger.hello["notes"], debugger.hello)


def bounded(job, name, program, events):
    with Debugger(job, name, program, ["--images", "1", "--back-within", "0.02"]) as debugger:
        debugger.do("to 0:end")
        debugger.do("to 0:10")
        deadline = time.monotonic() + 20
        while not any("more than --images allows" in each for each in said(debugger)):
            expect(time.monotonic() < deadline, said(debugger))
            debugger.do("to 0:end")
            debugger.do("to 0:10")
        expect(images(debugger, 0) == [], images(debugger, 0))
    with Debugger(job, name, program, ["--images", "60", "--back-within", "0.02"]) as debugger:
        make_some(debugger, 0, events)
        for _ in range(4):
            debugger.do(f"to 0:{events}")
            debugger.do(f"to 0:{random.randrange(events)}")
        told = debugger.do("checkpoints")
        expect(told["disk"] <= 60 << 20 and 0 in told["ranks"][0]["images"], told)


def full_disk(job, name, program):
    """Where a file system is full it is said, and nothing is lost."""
    if subprocess.run(["unshare", "-rm", "true"], capture_output=True, check=False).returncode != 0:
        print("full disk: left out, without user namespaces")
        return
    os.makedirs(f"{job.folder}/{name}/debug/images", exist_ok=True)
    inside = copy.copy(job)
    inside.cairn = f"{job.folder}/cairn-on-full-disk"
    with open(inside.cairn, "w", encoding="ascii") as file:
        file.write(f"#!/bin/sh\nexec unshare -rm sh -c 'mount -t tmpfs -o size=20m none {name}/debug/images && exec {job.cairn} \"$@\"' sh \"$@\"\n")
    os.chmod(inside.cairn, 0o755)
    with Debugger(inside, name, program, OPTIONS) as debugger:
        deadline = time.monotonic() + 60
        while not any("not enough space" in each for each in said(debugger)):
            expect(time.monotonic() < deadline, f"it isn't said: {said(debugger)}")
            debugger.do("to 0:end")
            debugger.do("to 0:10")
        expect(debugger.do("verify")["differences"] == [], "something is lost")


def at_line(job, rounds):
    """`line` and `--from` of a record with checkpoints go there from images, and all stand as a debugger without images has them stand."""
    program = [job.program("paced"), str(rounds)]
    job.record(2, "line", program, options=["--checkpoints", "fdas", "--checkpoint-every", str(rounds // 4)])
    with Debugger(job, "line", program) as debugger:
        line = debugger.do("line 1")
        path = debugger.do("print path")["value"]
    expect(line["focus"] == 0 and min(line["cut"]) > rounds // 2, line)
    with Debugger(job, "line", program, OPTIONS) as debugger:
        for rank in (0, 1):
            make_some(debugger, rank, rounds, 2)
        debugger.process.kill()
    for options, commands in (([], ["line 1"]), (["--from", "1"], [])):
        with Debugger(job, "line", program, ["--back-within", "0.02", *options]) as debugger:
            for command in commands:
                debugger.do(command)
            stands = debugger.do("cut")
            expect((stands["cut"], stands["focus"]) == (line["cut"], 0) and debugger.do("print path")["value"] == path, f"{options}: {stands}, without images {line}")
            expect(debugger.do("verify")["differences"] == [], f"{options}: not what a straight run makes of it")
            expect({each["rank"] for each in debugger.printed if FROM in each["line"]} == {0, 1}, f"{options}: {said(debugger)}")
            # Back and on from there, and to the line again.
            debugger.do("reverse-step 20")
            debugger.do("to 1:end")
            expect(debugger.do("line 1")["cut"] == line["cut"] and debugger.do("verify")["differences"] == [], f"{options}: another time")


def nobody_stays(folder_of_job):
    """Of those who were killed nothing runs on."""
    deadline = time.monotonic() + 30
    while True:
        left = []
        for path in glob.glob("/proc/[0-9]*/cmdline"):
            try:
                with open(path, "rb") as file:
                    words = file.read()
                link = os.readlink(os.path.dirname(path) + "/cwd")
            except OSError:
                continue
            if link.startswith(folder_of_job) and int(path.split("/")[2]) != os.getpid():
                left.append((path, words))
        if not left:
            return
        expect(time.monotonic() < deadline, f"still there: {left}")
        time.sleep(0.1)


def test(job, given):
    rounds = 500
    program = [job.program("paced"), str(rounds)]
    job.record(2, "paced", program, options=["--contents"])
    # Killed, not ended.
    debugger = Debugger(job, "paced", program, OPTIONS)
    make_some(debugger, 0, rounds)
    kept = images(debugger, 0)
    debugger.process.send_signal(signal.SIGKILL)
    debugger.__exit__()
    nobody_stays(job.folder)
    kept = [event for event in kept if os.path.exists(f"{job.folder}/{folder('paced', 0, event)}")]
    expect(len(kept) >= 2, kept)
    straight = {}
    shutil.copytree(f"{job.folder}/paced", f"{job.folder}/plain", symlinks=True)
    shutil.rmtree(f"{job.folder}/plain/debug/images")
    with Debugger(job, "plain", program) as plain:
        for event in sorted({kept[-1] - 1, kept[-1] + 3, kept[1]}):
            plain.do(f"to 0:{event}")
            straight[event] = plain.do("print path")["value"]
        plain.do("to 0:end")
        result = plain.lines(0)
    expect(restored(job, "paced", program, straight) == result, result)
    damaged(job, "paced", program, straight, kept)
    killed_while_making(job, "paced", program, 40 if given.soak else 2)
    stale(job, "paced", program)
    bounded(job, "paced", program, rounds)
    full_disk(job, "plain", program)
    at_line(job, rounds // 2)
    nobody_stays(job.folder)
