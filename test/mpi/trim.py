"""`cairn mpi trim`: what was received before the recovery line goes, once the job has ended and while it runs, and from there on the debugger's ranks
are what they were in the whole record; who writes to files is kept from the job's own; whatever is killed in between, nothing is lost.
--soak: more programs and ranks, and kills."""
import glob
import json
import os
import random
import shutil
import signal
import subprocess
import time

from cairn_test.mpi_debugger import Debugger
from cairn_test.mpi_job import expect, order

PROGRAMS = [("heat", ["40", "60", "30"], 4, 13, "bcs"), ("farm", ["60", "400"], 4, 10, "fdas")]
SOAK = [("crossing", ["4"], 5, 3, "bhmr"), ("bitonic", ["60"], 4, 7, "russell"), ("rows", ["each"], 3, 50, "bcs"), ("fortran_f08", [], 3, 4, "fdas"),
        ("fortran_mpi", [], 3, 4, "bcs"), ("heat", ["64", "64", "60"], 16, 40, "bcs")]
REMOVED = "what was before has been removed from the record"


def trim(job, name, program, code=0, options=()):
    out, err = job.run([job.cairn, "mpi", "trim", "--json", *options, name, *program], code)
    return [json.loads(line) for line in out.splitlines()], err


def recovery_line(job, name):
    return json.loads(job.run([job.cairn, "mpi", "recovery-line", "--json", name])[0])["ranks"]


def until(is_so, what):
    deadline = time.monotonic() + 60
    while not is_so():
        expect(time.monotonic() < deadline, what)
        time.sleep(0.02)


def disk(job, name, ranks):
    return sum(os.stat(f"{job.folder}/{name}/rank.{rank}").st_blocks * 512 for rank in range(ranks))


def record(job, ranks, name, program, protocol, every):
    return job.record(ranks, name, program, options=["--checkpoints", protocol, "--checkpoint-every", str(every)])


def ends_of(debugger, ranks):
    return [debugger.do(f"to {rank}:end") for rank in range(ranks)]


def stacks(debugger):
    return [[frame for frame in each["stack"] if "??" not in frame] for each in debugger.do("where")["ranks"]]


def like_the_whole(job, what, movements):
    """Wherever they stand behind the line, they are what they are in a record that nothing was removed from."""
    name, words, ranks, every, protocol = what
    program = [job.program(name), *words]
    out = record(job, ranks, name, program, protocol, every)[0]
    shutil.copytree(f"{job.folder}/{name}", f"{job.folder}/whole")
    line = recovery_line(job, name)
    before = disk(job, name, ranks)
    done, = trim(job, name, program)[0]
    expect(done["ended"] and done["moved"] == any(each["position"] > 0 for each in line), f"{name}: {done}, {line}")
    expect(disk(job, name, ranks) == done["left"] == before - done["freed"], f"{name}: {done}, {before} before, {disk(job, name, ranks)} now")
    expect(trim(job, name, program)[0][0]["moved"] is False, "it moves again")
    with Debugger(job, "whole", program) as whole, Debugger(job, name, program) as trimmed:
        begins = trimmed.do("cut")["cut"]
        expect(begins == [each["position"] for each in line], f"{name}: it begins at {begins}, and the line is {line}")
        ends = ends_of(whole, ranks)
        for one, other in zip(ends, ends_of(trimmed, ranks)):
            expect((one["place"], one["position"]) == (other["place"], other["position"]), f"{name}: {one} {other}")
        for _ in range(movements):
            rank = random.randrange(ranks)
            event = random.randint(line[rank]["event"], ends[rank]["event"])
            one, other = whole.do(f"to {rank}:{event}"), trimmed.ask(f"to {rank}:{event}")
            if not other["ok"]:
                expect(one["position"] < begins[rank] and REMOVED in other["error"], f"{name}: to {rank}:{event}: {other}, {one}")
                continue
            expect(other["cut"] == [max(pair) for pair in zip(one["cut"], begins)], f"{name}: {rank}:{event}: {one} {other}")
            expect(trimmed.do("verify")["differences"] == [], f"{name}: {rank}:{event}")
            if one["cut"] == other["cut"]:
                expect(stacks(whole) == stacks(trimmed), f"{name}: {rank}:{event}: {stacks(whole)} {stacks(trimmed)}")
                expect(whole.do("transit")["messages"] == trimmed.do("transit")["messages"], f"{name}: {rank}:{event}: other messages in transit")
        if begins[0] > 0:
            told = trimmed.ask("to 0:0")
            expect(not told["ok"] and REMOVED in told["error"], told)
            trimmed.do("reverse-continue")
            expect(trimmed.do("cut")["cut"][trimmed.do("cut")["focus"]] >= begins[trimmed.do("cut")["focus"]], "it is before the beginning")
        printed = {line for rank in range(ranks) for line in trimmed.lines(rank)}
        expect(printed <= set(out.splitlines()), f"{name}: it prints {printed}, and the job {out}")
    # A rank whose first block is still needed has all of its record.
    with open(f"{job.folder}/{name}/beginning", encoding="ascii") as file:
        removed = any(row.endswith(" 1\n") for row in file if row.startswith("rank "))
    if removed:
        expect("has been removed (cairn mpi trim)" in job.replay(ranks, name, program, code=None)[1], "a replay begins")
        expect("has been removed" in job.run([job.cairn, "mpi", "check", name])[0], "check doesn't say so")
    shutil.rmtree(f"{job.folder}/whole")


def maps_a_file_of(folder):
    """Somebody does."""
    for maps in glob.glob("/proc/[0-9]*/maps"):
        try:
            with open(maps, encoding="utf-8", errors="replace") as file:
                if f"{folder}/" in file.read():
                    return True
        except OSError:
            pass  # it has ended, or is another user's
    return False


class Running:
    """A job that is being recorded."""

    def __init__(self, job, ranks, name, program, every):
        shutil.rmtree(f"{job.folder}/{name}", ignore_errors=True)
        command = [*job.mpiexec(ranks), job.cairn, "mpi", "record", "--checkpoints", "bcs", "--checkpoint-every", str(every), "--out", name, *program]
        self.folder = f"{job.folder}/{name}"
        self.process = subprocess.Popen(command, env=job.env, cwd=job.folder, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                        start_new_session=True)
        until(lambda: all(os.path.exists(f"{job.folder}/{name}/trace.{rank}") for rank in range(ranks)), "the job doesn't begin")

    def end(self):
        out, err = self.process.communicate(timeout=120)
        expect(self.process.returncode == 0, f"the job: {self.process.returncode}\n{err}")
        return out, err

    def kill(self):
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.communicate()
        # The ranks are in groups of their own, and are killed when their parents see that the launcher has gone.
        until(lambda: not maps_a_file_of(self.folder), "ranks go on after their launcher was killed")


def good_to_the_end(job, name, program, ranks):
    """From where it begins each rank goes to its end, the order of whose events is that of the record."""
    with Debugger(job, name, program) as debugger:
        begins = debugger.do("cut")["cut"]
        ends_of(debugger, ranks)
        expect(debugger.do("verify")["differences"] == [], f"{name}: not what a straight run makes of it")
        expect(not any("departs" in each["line"] for each in debugger.printed), f"{name}: {debugger.printed}")
        return begins, {line for rank in range(ranks) for line in debugger.lines(rank)}


def while_it_runs(job, rounds, tries=3):
    """tries: with four times as many rounds each, where the machine gave the trim too few turns beside the job."""
    ranks, program = 3, [job.program("paced"), str(rounds)]
    running = Running(job, ranks, "paced", program, 100)
    begins, moved = [0] * ranks, 0
    while running.process.poll() is None:
        done, = trim(job, "paced", program)[0]
        expect(all(now >= before for now, before in zip(done["begins"], begins)), f"from {begins} back to {done}")
        begins, moved = done["begins"], moved + done["moved"]
    out, err = running.end()
    if moved < 2 and tries > 1:
        while_it_runs(job, 4 * rounds, tries - 1)
        return
    expect(moved >= 2, f"the beginning has moved {moved} times while the job ran")
    # What is removed isn't missed by the job; and once more, by a command that goes on by itself.
    done = trim(job, "paced", program, options=["--every", "0.1"])[0]
    expect(done[-1]["ended"] and len(done) == 1, done)
    expect(order(err) in job.run([job.cairn, "mpi", "check", "paced"])[0], "the record has another order than the job")
    cut, printed = good_to_the_end(job, "paced", program, ranks)
    expect(cut == [each["position"] for each in recovery_line(job, "paced")], cut)
    expect(printed == set(out.splitlines()), f"{printed}, and the job {out}")


def space_comes_back(job, rounds):
    """As much as was received, but for what comes behind the line."""
    ranks, program = 2, [job.program("heat"), "40", "8000", str(rounds)]
    running = Running(job, ranks, "large", program, 20)
    done = trim(job, "large", program, options=["--every", "0.2"])[0]
    running.end()
    size = sum(os.stat(f"{job.folder}/large/rank.{rank}").st_size for rank in range(ranks))
    expect(size > 1 << 20 and done[-1]["ended"] and disk(job, "large", ranks) < size / 2, f"{done}: {disk(job, 'large', ranks)} of {size} bytes are left")
    good_to_the_end(job, "large", program, ranks)
    # A job that was restarted from an older checkpoint has gone back behind what is left, and may have written that again.
    with open(f"{job.folder}/large/beginning", encoding="ascii") as file:
        offset = int(file.read().split("rank 0 ")[1].split()[3])
    for written in (b"", bytes(range(64))):
        os.truncate(f"{job.folder}/large/rank.0", offset - 64)
        with open(f"{job.folder}/large/rank.0", "ab") as file:
            file.write(written)
        expect("has gone back behind byte" in job.run([job.cairn, "mpi", "check", "large"], 4)[1], "a record that went back")


def killed(job, rounds, times):
    """Whoever is killed, and whenever: the trim has left too much, and a job's record ends somewhere."""
    ranks, program = 3, [job.program("paced"), str(rounds)]
    running = Running(job, ranks, "killed", program, 50)
    until(lambda: all(each["position"] > 0 for each in recovery_line(job, "killed")), "the line of the job doesn't leave its beginning")
    time.sleep(random.uniform(0, 1))
    running.kill()
    for _ in range(times):
        shutil.rmtree(f"{job.folder}/again", ignore_errors=True)
        shutil.copytree(f"{job.folder}/killed", f"{job.folder}/again")
        trimming = subprocess.Popen([job.cairn, "mpi", "trim", "again", *program], env=job.env, cwd=job.folder,
                                    stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(random.uniform(0.1, 1.2))
        trimming.kill()
        trimming.wait()
        done = trim(job, "again", program)[0][0]
        expect(not done["ended"] and all(each > 0 for each in done["begins"]), done)
        good_to_the_end(job, "again", program, ranks)


def writes_nothing(job, rounds):
    """The second run of a program keeps off the files of the first."""
    ranks, program = 2, [job.program("writes"), str(rounds)]
    running = Running(job, ranks, "writes", program, 40)
    until(lambda: all(each["position"] > 0 for each in recovery_line(job, "writes")), "the line of the job doesn't leave its beginning")
    told = trim(job, "writes", program, 3)[1]
    expect("departs from its record" in told and "--in" in told, told)
    os.mkdir(f"{job.folder}/apart")
    until(lambda: trim(job, "writes", program, options=["--in", "apart"])[0][0]["moved"], "the line doesn't move")
    running.end()
    trim(job, "writes", program, options=["--in", "apart"])
    for rank in range(ranks):
        with open(f"{job.folder}/out.{rank}", encoding="ascii") as file:
            lines = file.read().splitlines()
        with open(f"{job.folder}/apart/out.{rank}", encoding="ascii") as file:
            apart = file.read().splitlines()
        expect([line.split()[0] for line in lines] == [str(i) for i in range(rounds)], f"out.{rank} has {len(lines)} lines")
        expect(0 < len(apart) and apart == lines[:len(apart)], f"apart/out.{rank}: {apart[:3]}")
    good_to_the_end(job, "writes", program, ranks)


def refused(job):
    ranks, program = 2, [job.program("writes"), "60"]
    job.record(ranks, "bare", program, options=["--contents"])
    expect("has no trace.0" in trim(job, "bare", program, 2)[1], "a record without checkpoints is trimmed")
    record(job, ranks, "some", program, "bcs", 10)
    before = disk(job, "some", ranks)
    with Debugger(job, "some", program) as debugger:
        expect("is open in a debugger" in trim(job, "some", program, 3, ["--may-write"])[1], "it is trimmed under a debugger")
        debugger.do("to 0:1")
    expect(disk(job, "some", ranks) == before and not os.path.exists(f"{job.folder}/some/beginning"), "something is removed")
    expect("--every" in trim(job, "some", program, 2, ["--every", "-1"])[1], "--every -1")
    expect("has no record" in trim(job, "nowhere", program, 2)[1], "a folder that isn't there")
    trim(job, "some", program, options=["--may-write"])
    told = trim(job, "some", [program[0], "61"], 3, ["--may-write"])[1]
    expect("another program, other arguments" in told, told)
    # What makes no sense; an image that has gone.
    shutil.copy(f"{job.folder}/some/beginning", f"{job.folder}/beginning")
    with open(f"{job.folder}/some/beginning", "a", encoding="ascii") as file:
        file.seek(0)
        file.truncate(40)
    expect("makes no sense" in job.run([job.cairn, "mpi", "check", "some"], 4)[1], "half a file is read")
    shutil.move(f"{job.folder}/beginning", f"{job.folder}/some/beginning")
    image = next(each for each in os.listdir(f"{job.folder}/some/kept") if each.startswith("0-"))
    shutil.move(f"{job.folder}/some/kept/{image}", f"{job.folder}/aside")
    out = job.run([job.cairn, "mpi", "debug", "some", *program], 4)
    expect("the image of where its record begins isn't there" in out[1], out)
    shutil.move(f"{job.folder}/aside", f"{job.folder}/some/kept/{image}")
    good_to_the_end(job, "some", program, ranks)


def test(job, given):
    for what in PROGRAMS + (SOAK if given.soak else []):
        like_the_whole(job, what, 60 if given.soak else 12)
    while_it_runs(job, 20000 if given.soak else 2000)
    space_comes_back(job, 6000 if given.soak else 800)
    killed(job, 100000, 40 if given.soak else 3)
    writes_nothing(job, 3000 if given.soak else 900)
    refused(job)


if __name__ == "__main__":
    from cairn_test.mpi_job import main
    main(test)
