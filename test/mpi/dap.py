"""`cairn mpi debug --dap`: a session of an editor, from a wrong result to the line that made it; steps and breakpoints both ways, values,
a pause, and what an editor may do wrong."""
import glob
import os
import re
import subprocess
import sys
import time

from cairn_test.dap_client import Editor
from cairn_test.mpi_job import expect

SOURCE = os.path.join(os.path.dirname(__file__), "planted.c")


def line_of(text, source=SOURCE):
    with open(source, encoding="utf-8") as file:
        return next(i for i, line in enumerate(file, 1) if text in line)


def open_upstream(job, editor, program, **more):
    told = editor.do("initialize", adapterID="cairn")
    expect(told["supportsStepBack"] and told["supportsDataBreakpoints"], told)
    editor.do("launch", record="upstream", program=program[0], args=program[1:], **more)
    editor.wait("initialized")


def upstream(job):
    """The result of a ring is wrong: one of four has added a part that another line has damaged."""
    program = [job.program("planted"), "upstream"]
    job.record(4, "upstream", program, options=["--contents"])
    receive, send = line_of("MPI_Recv(&value, 1, MPI_INT, from, tag"), line_of("MPI_Send(&value, 1, MPI_INT, to, tag")
    with Editor(job) as editor:
        open_upstream(job, editor, program)
        told = editor.do("setBreakpoints", source={"path": SOURCE}, breakpoints=[{"line": receive - 2}, {"line": 100000}])["breakpoints"]
        expect(told[0] == {"verified": True, "line": receive} and not told[1]["verified"] and "no rank calls" in told[1]["message"], told)
        told = editor.do("setFunctionBreakpoints", breakpoints=[{"name": "nosuch"}])["breakpoints"]
        expect(not told[0]["verified"] and "nosuch" in told[0]["message"], told)
        stop = editor.move("configurationDone")
        expect(stop["reason"] == "entry" and stop["threadId"] == 1 and stop["allThreadsStopped"], stop)
        told = editor.do("threads")["threads"]
        expect([each["id"] for each in told] == [1, 2, 3, 4] and told[3]["name"].startswith("rank 3, event 0"), told)
        # Rank 0 gets its result by the breakpoint, within `receive`.
        stop = editor.move("continue", threadId=1)
        expect(stop["reason"] == "breakpoint" and stop["threadId"] == 1, stop)
        frames = editor.stack(0)
        expect([each["name"] for each in frames] == ["receive", "upstream", "main"] and frames[0]["source"]["path"] == SOURCE and
               frames[0]["line"] in (receive, receive + 1), frames)
        values = editor.variables(frames[0]["id"])
        expect(values["value"]["value"] == "103" and values["value"]["type"] == "int" and values["tag"]["value"] == "1", values)
        everything = editor.variables(frames[1]["id"], "Globals of this file")
        expect(everything["rank"]["value"] == "0" and everything["part"]["indexedVariables"] == 4, everything)
        expect([each["value"] for each in editor.parts(everything["part"]).values()] == ["1"] * 4, everything)
        some = editor.do("variables", variablesReference=everything["buffer"]["variablesReference"], start=1 << 19, count=3)["variables"]
        expect(everything["buffer"]["value"].startswith("{0, 0, ") and [each["name"] for each in some] == ["[524288]", "[524289]", "[524290]"], some)
        mpi = editor.variables(frames[0]["id"], "MPI")
        expect("from 3" in mpi["last received"]["value"] and mpi["sent by"]["value"].startswith("rank 3"), mpi)
        told = editor.do("evaluate", expression="value * 2 + part[1]", frameId=frames[0]["id"], context="watch")
        expect(told["result"] == "207", told)
        told = editor.ask("evaluate", expression="nosuch", frameId=frames[0]["id"], context="hover")
        expect(not told["success"] and "No symbol" in told["message"], told)
        # Along the messages, in the editor's console.
        for rank in (3, 2, 1):
            told = editor.do("evaluate", expression="back", context="repl")
            stop = editor.wait("stopped")
            expect(told["result"].startswith("along ") and stop["threadId"] == rank + 1, (told, stop))
        told = editor.do("evaluate", expression="part[1]", context="repl")
        expect(told["result"] == "100", told)
        # Who has damaged it: a data breakpoint, and back.
        info = editor.do("dataBreakpointInfo", name="part[1]")
        editor.do("setDataBreakpoints", breakpoints=[{"dataId": info["dataId"], "accessType": "write"}])
        editor.do("setBreakpoints", source={"path": SOURCE}, breakpoints=[])
        stop = editor.move("reverseContinue", threadId=2)
        expect(stop["reason"] == "data breakpoint" and "became 100" in editor.printed("console") and "between events 0 and 1" in editor.printed("console"),
               (stop, editor.printed("console")))
        # And forward again.
        editor.do("setDataBreakpoints", breakpoints=[])
        editor.do("setBreakpoints", source={"path": SOURCE}, breakpoints=[{"line": send}])
        stop = editor.move("continue", threadId=2)
        expect(stop["reason"] == "breakpoint" and editor.stack(1)[0]["name"] == "send", stop)
        before = editor.stack(1)
        editor.move("stepBack", threadId=2)
        expect(editor.stack(1)[0]["name"] == "receive", editor.stack(1))
        editor.move("next", threadId=2)
        expect([each["line"] for each in editor.stack(1)] == [each["line"] for each in before], before)
        stop = editor.move("reverseContinue", threadId=2)
        expect(stop["reason"] == "end" and ": before the first" in stop["description"], stop)
        targets = editor.do("gotoTargets", source={"path": SOURCE}, line=send)["targets"]
        expect([each["line"] for each in targets] == [send] and targets[0]["label"].startswith("next pass: event "), targets)
        stop = editor.move("goto", threadId=2, targetId=targets[0]["id"])
        expect(stop["reason"] == "goto" and editor.stack(1)[0]["name"] == "send", stop)
        stop = editor.move("restart")
        expect(stop["threadId"] == 2 and "event 0 of" in stop["description"], stop)
        stop = editor.move("continue", threadId=1)
        expect(stop["threadId"] == 1, stop)
        editor.do("cairn/command", line="to 0:end")
        expect(editor.wait("stopped")["reason"] == "goto", "to 0:end")
        told = editor.do("cairn/command", line="why 2")
        expect(len(told["answer"]["chain"]) == 2 and "from rank 3" in told["text"].replace("\n", " "), told)
        expect([each["label"] for each in editor.do("completions", text="wa", column=3)["targets"]] == ["watch", "waits"], "completions")
        editor.do("disconnect")
        editor.wait("terminated")
        expect(editor.process.wait(30) == 0, "exit code")


def live(job):
    """The whole job, from a record without contents: gdb only looks at its ranks, and lets go of them before anybody moves."""
    program = [job.program("planted"), "upstream"]
    job.record(4, "together", program)
    receive = line_of("MPI_Recv(&value, 1, MPI_INT, from, tag")
    launcher = job.mpiexec(4)
    with Editor(job, ["--live"]) as editor:
        told = editor.do("initialize", adapterID="cairn", supportsInvalidatedEvent=True)
        expect(told["supportsStepBack"] and not told["supportsDataBreakpoints"], told)
        told = editor.ask("launch", record="together", program=launcher[0], args=[*launcher[1:], *program], memory=100)
        expect("live goes without memory" in told["message"], told)
        editor.do("launch", record="together", program=launcher[0], args=[*launcher[1:], *program])
        editor.wait("initialized")
        told = editor.do("setBreakpoints", source={"path": SOURCE}, breakpoints=[{"line": receive}])["breakpoints"]
        expect(told[0] == {"verified": True, "line": receive}, told)
        stop = editor.move("configurationDone")
        expect(stop["reason"] == "entry" and stop["threadId"] == 1, stop)
        stop = editor.move("continue", threadId=1)
        expect(stop["reason"] == "breakpoint" and stop["threadId"] == 1, stop)
        for rank in range(4):  # a gdb in each
            expect(editor.stack(rank)[-1]["name"] == "main", editor.stack(rank))
        frames = editor.stack(0)
        expect([each["name"] for each in frames] == ["receive", "upstream", "main"] and frames[0]["source"]["path"] == SOURCE, frames)
        everything = editor.variables(frames[1]["id"], "Globals of this file")
        part = everything["part"]
        expect(editor.variables(frames[0]["id"])["value"]["value"] == "103" and [each["value"] for each in editor.parts(part).values()] == ["1"] * 4, part)
        # Nothing is changed in it.
        for expression, why in (("part[1] = 7", "not allowed"), ("getpid()", "call functions")):
            told = editor.ask("evaluate", expression=expression, frameId=frames[0]["id"], context="watch")
            expect(not told["success"] and why in told["message"], told)
        expect(editor.do("evaluate", expression="part[1]", frameId=frames[0]["id"], context="watch")["result"] == "1", "part[1]")
        info = editor.do("dataBreakpointInfo", name="part[1]")
        expect(info["dataId"] is None and "can't be watched" in info["description"], info)
        # A command that looks by itself: what another gdb has told is read anew.
        told = editor.do("evaluate", expression="print part[1]", context="repl")
        expect(told["result"] == "1", told)
        expect(editor.wait("invalidated") == {"areas": ["variables"]}, "invalidated")
        told = editor.ask("variables", variablesReference=part["variablesReference"])
        expect(not told["success"] and "read anew" in told["message"], told)
        part = editor.variables(frames[1]["id"], "Globals of this file")["part"]
        expect([each["value"] for each in editor.parts(part).values()] == ["1"] * 4, part)
        for rank in (3, 2, 1):
            told = editor.do("evaluate", expression="back", context="repl")
            stop = editor.wait("stopped")
            expect(told["result"].startswith("along ") and stop["threadId"] == rank + 1, (told, stop))
        told = editor.do("evaluate", expression="part[1]", frameId=0, context="watch")
        expect(told["result"] == "100", told)
        before = editor.stack(1)
        stop = editor.move("stepBack", threadId=2)
        expect(stop["threadId"] == 2 and [each["name"] for each in editor.stack(1)] == ["main"], (stop, editor.stack(1)))
        editor.move("next", threadId=2)
        expect([(each["name"], each["line"]) for each in editor.stack(1)] == [(each["name"], each["line"]) for each in before], before)
        told = editor.ask("evaluate", expression="watch part[1]", context="repl")
        expect(not told["success"] and "--live" in told["message"], told)
        stop = editor.move("reverseContinue", threadId=1)
        expect(stop["threadId"] == 1 and stop["reason"] == "end", stop)
        editor.do("cairn/command", line="to 0:end")
        expect("event" in editor.wait("stopped")["description"], "to 0:end")
        editor.do("disconnect")
        editor.wait("terminated")
        expect(editor.process.wait(60) == 0, "exit code")


def stops_elsewhere(job):
    """The record and the program on the command line, a place to stop at first; what the program prints."""
    program = [job.program("heat"), "4", "16", "6"]
    job.record(3, "heat", program, options=["--contents"])
    with Editor(job, ["--every", "2", "heat", *program]) as editor:
        editor.do("initialize")
        editor.do("launch", stopAt="0:end")
        editor.wait("initialized")
        stop = editor.move("configurationDone")
        expect(stop["reason"] == "entry" and "MPI_Finalize" in stop["description"], stop)
        native, _ = job.run([job.cairn, "mpi", "replay", "--rank", "0", "heat", *program])
        expect(editor.printed("stdout").splitlines() == [f"[0] {line}" for line in native.splitlines()] != [], editor.printed("stdout"))


def in_fortran(job):
    program = [job.program("fortran_f08")]
    job.record(3, "fortran", program, options=["--contents"])
    with Editor(job, ["fortran", *program]) as editor:
        editor.do("initialize")
        editor.do("launch", stopAt="1:end")
        editor.wait("initialized")
        expect(editor.move("configurationDone")["threadId"] == 2, "stopAt 1:end")
        frame = editor.stack(1)[0]
        expect(frame["source"]["name"].endswith((".f90", ".inc")), frame)
        values = editor.do("evaluate", expression="values", context="watch", frameId=frame["id"])
        expect(values["indexedVariables"] == 64 and "integer" in values["type"], values)
        parts = editor.parts(values)
        expect(list(parts)[:2] == ["(1)", "(2)"] and len(parts) == 64, parts)
        again = editor.do("evaluate", expression=parts["(7)"]["evaluateName"], context="hover", frameId=frame["id"])
        expect(again["result"] == parts["(7)"]["value"], again)


def pause(job):
    """A way that takes long is given up when the editor asks for it: everybody stands where they stood."""
    program = [job.program("paced"), "400"]  # rounds of 2 ms
    job.record(2, "paced", program, options=["--contents"])
    with Editor(job, ["paced", *program]) as editor:
        editor.do("initialize")
        editor.do("launch")
        editor.wait("initialized")
        editor.move("configurationDone")
        editor.do("continue", threadId=1)
        time.sleep(0.2)
        begun = time.monotonic()
        editor.do("pause", threadId=1)
        stop = editor.wait("stopped")
        took = time.monotonic() - begun
        expect(stop["reason"] == "pause" and "event 0 of" in stop["description"] and "interrupted" in editor.printed("console"), stop)
        expect(editor.stack(0)[-1]["name"] == "main", editor.stack(0))
        stop = editor.move("continue", threadId=1)
        expect(stop["reason"] == "end" and "MPI_Finalize" in stop["description"], stop)
        print(f"pause: {took:.2f} s")
        stop = editor.move("next", threadId=2)
        expect(stop["threadId"] == 2 and "event 401 of 401" in stop["description"], stop)


def wrong(job):
    program = [job.program("planted"), "upstream"]
    with Editor(job) as editor:
        expect("no record is open" in editor.ask("threads")["message"], "threads before launch")
        expect("there is no 'fly'" in editor.ask("fly")["message"], "fly")
        expect("what is to be debugged?" in editor.ask("launch")["message"], "launch")
        expect("nowhere/rank.0" in editor.ask("launch", record="nowhere", program="x")["message"], "nowhere")
        expect("type_error" in editor.ask("launch", record=5)["message"], "a record that is a number")
        expect("more than 0" in editor.ask("launch", record="upstream", program=program[0], backWithin=0)["message"], "backWithin")
        open_upstream(job, editor, program)
        editor.move("configurationDone")
        for command, arguments, text in (("next", {"threadId": 9}, "threads 1 to 4"), ("scopes", {"frameId": 99}, "no frame 99"),
                                         ("variables", {"variablesReference": 7}, "reference 7"), ("goto", {"targetId": 3}, "no target 3"),
                                         ("setBreakpoints", {}, "source"), ("evaluate", {"expression": "to 9:1", "context": "repl"}, "ranks are 0 to 3"),
                                         ("evaluate", {"expression": "gdb 1", "context": "repl"}, "needs a terminal")):
            told = editor.ask(command, **arguments)
            expect(not told["success"] and text in told["message"], f"{command}: {told}")
        editor.do("stackTrace", threadId=1)
    expect(editor.process.returncode == 0, f"an editor that goes: {editor.process.returncode}")
    with Editor(job) as editor:
        open_upstream(job, editor, [job.program("heat")])
        told = editor.ask("configurationDone")
        expect("rank 0 ended with code 3" in told["message"] and told["body"]["error"]["showUser"], told)
        expect("another program" in editor.printed("stderr"), editor.events)
        editor.wait("terminated")
    for text in (b"GET / HTTP/1.1\r\n\r\n", b"Content-Length: 3\r\n\r\n[1]", b"Content-Length: 999999999999\r\n\r\n", b"x" * 5000):
        done = subprocess.run([job.cairn, "mpi", "debug", "--dap"], cwd=job.folder, env=job.env, input=text, capture_output=True, timeout=60, check=False)
        expect(done.returncode == 2 and b"no message of the Debug Adapter Protocol" in done.stderr, done)
    done = subprocess.run([job.cairn, "mpi", "debug", "--dap", "--json"], cwd=job.folder, env=job.env, capture_output=True, check=False)
    expect(done.returncode == 2 and b"--json or --dap" in done.stderr, done)


def by_emacs(job):
    """A client that others have made: Emacs' dap-mode (Debian's emacs-nox and elpa-dap-mode)."""
    if not os.path.isdir("/usr/share/emacs/site-lisp/elpa-src") or not glob.glob("/usr/share/emacs/site-lisp/elpa-src/dap-mode-*"):
        print("dap-mode isn't installed: apt-get install emacs-nox elpa-dap-mode")
        sys.exit(77)
    receive = line_of("MPI_Recv(&value, 1, MPI_INT, from, tag")
    env = dict(job.env, HOME=job.folder, PATH=f"{os.path.dirname(job.cairn)}:{job.env['PATH']}", DAP_BREAK=f"{SOURCE}:{receive}",
               DAP_RECORD=f"{job.folder}/upstream", DAP_PROGRAM=job.program("planted"))
    script = os.path.join(os.path.dirname(__file__), "dap_mode.el")
    done = subprocess.run(["emacs", "--batch", "-l", script], cwd=job.folder, env=env, capture_output=True, text=True, timeout=300, check=False)
    told = re.findall(r"^stop (\d): thread (\d), (\w+):(\d+), (\w+) is (.*)$", done.stderr, re.MULTILINE)
    expect([(each[1], each[2], each[4], each[5]) for each in told] ==
           [("1", "main", "rank", "0"), ("1", "receive", "value", "103"), ("1", "main", "rank", "0"), ("1", "receive", "value", "103"),
            ("4", "receive", "rank", "3")] and done.returncode == 0, done)


def test(job, given):
    upstream(job)
    if given.soak:
        by_emacs(job)
    stops_elsewhere(job)
    in_fortran(job)
    pause(job)
    live(job)
    wrong(job)
