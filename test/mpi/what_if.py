"""`what-if from RANK` of `cairn mpi debug`: at a receive from anybody the message comes first that another run could have brought; what the rank prints
is what such a run prints, and where it would make another call, it is said. `what-if request INDEX`: the same of which of several requests is complete
first."""
import re

from cairn_test.mpi_debugger import Debugger
from cairn_test.mpi_job import expect


def told(debugger, command):
    return debugger.ask(command)


def other_rank(debugger):
    """Which rank's message could have come at the next choice. Most often it is the one that slept before it sent."""
    choices = debugger.do("what-if choices")
    expect(len(choices["choices"]) == 1, choices)
    return choices["choices"][0]["rank"], choices


def blocking(job):
    program = [job.program("planted"), "race"]
    job.record(3, "race", program, options=["--contents"])
    with Debugger(job, "race", program) as debugger:
        first = debugger.do("print result")
        other, choices = other_rank(debugger)
        expect(choices["at"] == 1, choices)
        for _ in range(2):  # nobody has moved
            done = debugger.do(f"what-if from {other} ; result")
            expect((done["with"], done["without"], done["departs"]) == (f"{other}{3 - other}", f"{3 - other}{other}", False), done)
        expect(debugger.do("print result") == first and debugger.do("verify")["differences"] == [], "it has moved")
        for command, text in ((f"what-if from {3 - other}", f"no message from rank {3 - other} could have come"), (f"what-if from {other} tag 7", "with tag 7 could have come"),
                              ("what-if from", "from RANK [tag TAG]"), ("what-if from x", "from RANK [tag TAG]"), ("what-if from 1 tags 2", "from RANK [tag TAG]"),
                              ("what-if from 1 tag 1 2", "from RANK [tag TAG]"), ("what-if", "or choices")):
            answer = told(debugger, command)
            expect(not answer["ok"] and text in answer["error"], f"{command}: {answer}")
        debugger.do("to 0:end")
        for command in ("what-if from 1", "what-if choices"):
            answer = told(debugger, command)
            expect(not answer["ok"] and "receives nothing behind where it stands" in answer["error"], f"{command}: {answer}")


def requests(job):
    """Of receives that are completed together, and of some that come later."""
    program = [job.program("planted"), "choice"]
    job.record(3, "choice", program, options=["--contents"])
    with Debugger(job, "choice", program) as debugger:
        for event, places in ((0, (1, 0, 2, 3)), (3, (0, 1, 3, 2))):
            debugger.do(f"to 0:{event}")
            done = debugger.do(f"what-if from {other_rank(debugger)[0]} ; result")
            each = [done["without"][i:i + 2] for i in range(0, 8, 2)]
            path = "".join(each[i] for i in places)
            expect((done["prints"], done["instead_of"], done["with"]) == ([f"path {path}"], [f"path {done['without']}"], path) and not done["departs"], done)


def path_of(tags_and_ranks):
    path = 0
    for tag, rank in tags_and_ranks:
        path = (path * 31 + rank + tag) % (1 << 32)
    return f"paced: path {path:08x}"


def against_a_model(job):
    """Each choice of a run of many: the message comes first, all others as they came."""
    rounds, ranks, tried = 12, 4, 0
    program = [job.program("paced"), str(rounds)]
    job.record(ranks, "paced", program, options=["--contents"])
    with Debugger(job, "paced", program) as debugger:
        got = []
        for event in range(1, rounds * (ranks - 1) + 1):
            place = debugger.do(f"to 0:{event}")["place"]
            found = re.search(r"receive from (\d+)(?:, tag (\d+))?", place)
            got.append((int(found[2] or 0), int(found[1])))
        debugger.do("to 0:end")
        expect(debugger.lines(0) == [path_of(got)], f"{debugger.lines(0)}, {path_of(got)}")
        for event in range(0, len(got), 3):
            debugger.do(f"to 0:{event}")
            answer = told(debugger, "what-if choices")
            if not answer["ok"]:
                continue
            at = answer["at"] - 1
            for choice in answer["choices"]:
                done = debugger.do(f"what-if from {choice['rank']} tag {choice['tag']}")
                other = got.index((choice["tag"], choice["rank"]), at)
                order = [*got[:at], got[other], *got[at:other], *got[other + 1:]]
                prints = [path_of(order)] if path_of(order) != path_of(got) else []
                expect(done["prints"] == prints and not done["departs"], f"event {event}: {done}, {prints}")
                tried += 1
        expect(debugger.do("verify")["differences"] == [], "it has moved")
    expect(tried > 0, "nothing could have come otherwise")
    print(f"{tried} choices")


def departing(job):
    """A farm's master answers whom it has heard: another call than in the record."""
    program = [job.program("farm"), "8", "40"]
    job.record(3, "farm", program, options=["--contents"])
    with Debugger(job, "farm", program) as debugger:
        choice = debugger.do("what-if choices")["choices"][0]
        done = debugger.do(f"what-if from {choice['rank']}")
        expect(done["departs"] and f"now:      MPI_Send, rank {choice['rank']}" in done["how"], done)
    program = [job.program("planted"), "unheard"]
    job.record(3, "unheard", program, options=["--contents"])
    with Debugger(job, "unheard", program) as debugger:
        choice = debugger.do("what-if choices")["choices"][0]
        answer = told(debugger, f"what-if from {choice['rank']}")
        expect(not answer["ok"] and "is never received" in answer["error"], answer)


def which(job, how, ranks=3):
    """Each request that could have been complete first, at each completion: all others come as they came."""
    program = [job.program("whichever"), how]
    job.record(ranks, "whichever", program, options=["--contents"])
    tried = 0
    with Debugger(job, "whichever", program) as debugger:
        debugger.do("to 0:end")
        got = debugger.lines(0)[0].split()[1:]
        debugger.do("to 0:0")
        while (answer := told(debugger, "what-if choices"))["ok"]:
            found = re.search(r"receive from (\d+)(?:, tag (\d+))?", answer["receive"])
            first = 2 * (int(found[1]) - 1) + int(found[2] or 0) if found else 2 * (ranks - 1)
            taken = next(i for i, each in enumerate(got) if each.startswith(f"{first}:"))  # before it
            for choice in answer["requests"]:
                expect(choice["hindrance"] == "", choice)
                done = debugger.do(f"what-if request {choice['index']}")
                number = choice["index"]
                if how == "moved":
                    sent = re.match(r"rank (\d+) event \d+: send to 0(?:, tag (\d+))?,", choice["text"])
                    number = 2 * (int(sent[1]) - 1) + int(sent[2] or 0)
                other = next(i for i, each in enumerate(got) if each.startswith(f"{number}:"))
                expect(other > taken, f"{how}, {choice}: it is complete already, {got}")
                order = [*got[:taken], got[other], *got[taken:other], *got[other + 1:]]
                if how in ("rest", "test"):
                    order = [order[0], *sorted(order[1:], key=lambda each: int(each.split(":")[0]))]
                expect(not done["departs"] and (done["prints"], done["instead_of"]) == ([" ".join(["path", *order])], [" ".join(["path", *got])]),
                       f"{how}, {choice} at {taken}: {done}, {order}")
                tried += 1
            debugger.do(f"to 0:{answer['at']}")
        expect(debugger.do("verify")["differences"] == [], "it has moved")
    expect(tried > 1, f"{how}: {tried} requests could have been complete first")
    print(f"{how}: {tried} requests first")


def not_which(job):
    program = [job.program("whichever"), "answer"]
    job.record(3, "whichever", program, options=["--contents"])
    with Debugger(job, "whichever", program) as debugger:
        first = debugger.do("what-if choices")["requests"]
        ranks = {each["index"]: 1 + each["index"] // 2 for each in first}
        index = next(each for each, rank in ranks.items() if rank == 1)  # the one that is last
        done = debugger.do(f"what-if request {index} ; left")
        expect((done["with"], done["without"]) == ("3", "0") and done["departs"] and f"now:      MPI_Send, rank {ranks[index]}" in done["how"], done)
        for command, text in (("what-if request", "request INDEX"), ("what-if request x", "request INDEX"), ("what-if request 1 2", "request INDEX"),
                              ("what-if request 77", "request 77 couldn't have been complete first"), ("what-if from 1", "receives nothing")):
            answer = told(debugger, command)
            expect(not answer["ok"] and text in answer["error"], f"{command}: {answer}")
        debugger.do("to 0:end")
        answer = told(debugger, "what-if request 0")
        expect(not answer["ok"] and "waits for none of several requests" in answer["error"], answer)
    program = [job.program("whichever"), "collective"]
    job.record(3, "whichever", program, options=["--contents"])
    with Debugger(job, "whichever", program) as debugger:
        choices = debugger.do("what-if choices")["requests"]
        barrier = next(each for each in choices if each["index"] == 4)
        expect("collective" in barrier["hindrance"], choices)
        answer = told(debugger, "what-if request 4")
        expect(not answer["ok"] and "collective" in answer["error"], answer)


def test(job, given):
    for _ in range(10 if given.soak else 1):
        for how in ("any", "testany", "some", "testsome", "moved", "rest", "test", "send"):
            which(job, how, 4 if given.soak else 3)
    not_which(job)
    blocking(job)
    requests(job)
    for _ in range(10 if given.soak else 1):
        against_a_model(job)
    departing(job)
