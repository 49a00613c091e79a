"""A service of three programs that talk to each other goes on after a stop, a crash of everything, and the death of its coordinator or of what
runs it: nothing is lost or done twice. It falls back to the checkpoint before a damaged one, and begins anew only if told so."""
# ci: exact
import glob
import json
import os
import signal
from cairn_test import check, processes
from cairn_test.service import Service


def damage(folder):
    for image in glob.glob(os.path.join(folder, "*.image")):
        with open(image, "r+b") as file:
            file.seek(os.path.getsize(image) // 2)
            file.write(b"damage" * 100)


def generations(service):
    found = [path for path in glob.glob(os.path.join(service.ckptdir, "*", "*")) if os.path.basename(path).isdigit()]
    return sorted(found, key=lambda path: int(os.path.basename(path)))


def counted(t):
    t.processes_left = lambda: [processes.command_line(pid) for pid in processes.descendants()]

    def running():
        lines = []
        for pid in processes.descendants():
            line, state = processes.command_line(pid), processes.stat(pid)
            # A shell's child that hasn't executed its command yet is no second shell.
            if state and processes.command_line(state[2]) != line:
                lines.append(line)
        return {"client": sum("client.py" in line and "launch" not in line for line in lines),
                "server": sum("server.py" in line and "launch" not in line for line in lines),
                "bash": sum(line.startswith("bash -c") for line in lines)}
    t.programs_running = running


def test(t):
    counted(t)
    service = Service(t, interval=0)
    code, out, err = service.command("check")
    check(code == 0 and "none yet" in out, f"check before the first start: {code} {out}{err}")
    service.start()
    service.wait_told("STATUS=checkpoint 1 ")  # taken at once, so that there is something to go on from
    service.goes_on("at first")
    service.wait_said("line 1")

    code, out, err = t.command("service", "run", "--user", "demo", env=service.env)
    check(code == 3 and "runs already" in err, f"a second instance ended with {code}: {err}")
    state = json.loads(service.command("status", "--json")[1])
    check(state["running"] and state["pid"] == service.pid and state["processes"] >= 3, f"status says {state}")
    check(service.command("forget")[0] == 3, "checkpoints were given up while the service runs")

    os.kill(service.pid, signal.SIGHUP)
    service.wait_told("STATUS=checkpoint 2 ")
    for round in range(3):
        service.stop()
        check(service.command("check")[0] == 0, "after a stop it can't be started")
        lines = service.journal.text.count("line ")
        service.start()
        service.goes_on(f"after stop {round}")
        t.wait_until(lambda: service.journal.text.count("line ") > lines, "the script to print to the new journal")
    said = [line for line in service.journal.text.splitlines() if line.startswith("line ")]
    check(said == [f"line {number}" for number in range(1, len(said) + 1)], f"the script's lines: {said}")

    for round in range(3):
        service.crash()
        service.start()
        service.goes_on(f"after crash {round}")
        newest = generations(service)[-1]
        os.kill(service.pid, signal.SIGHUP)
        t.wait_until(lambda: generations(service)[-1] != newest, "a checkpoint")

    # A stop that systemd doesn't wait for. On a busy machine its checkpoint may have come and gone before anybody looks.
    for _ in range(10):
        newest = generations(service)[-1]
        os.kill(service.pid, signal.SIGTERM)
        t.wait_until(lambda: processes.capture() or generations(service)[-1] != newest, "the last checkpoint to begin")
        service.crash()
        cut_off = generations(service)[-1] == newest
        service.start()
        service.goes_on("after a stop whose checkpoint was cut off")
        if cut_off:
            break
    check(cut_off, "no checkpoint was cut off")

    killed(t, service)
    damaged(t, service)
    ends(t, service)


def killed(t, service):
    """Of a service that runs somebody is killed alone."""
    t.env["CAIRN_SESSION"] = "service-demo"
    t.name = "service-demo"
    coordinator = t.coordinator_pid()
    os.kill(coordinator, signal.SIGKILL)
    t.wait_until(lambda: t.coordinator_pid() not in (None, coordinator), "another coordinator", 30)
    newest = generations(service)[-1]
    os.kill(service.pid, signal.SIGHUP)
    t.wait_until(lambda: generations(service)[-1] != newest, "a checkpoint by the new coordinator")
    service.goes_on("after the coordinator was killed")

    os.kill(service.pid, signal.SIGKILL)
    service.ended()
    check(t.programs_running()["client"] == 1, "the programs ended with what ran them")
    service.start()
    service.wait_said("nobody runs it")
    service.goes_on("after what ran it was killed")
    service.stop()


def damaged(t, service):
    damage(generations(service)[-1])
    service.start()
    service.wait_said("is damaged")
    service.goes_on("from the checkpoint before")
    service.stop()
    for folder in generations(service):
        damage(folder)
    code, out, _ = service.command("check")
    check(code == 3 and "none is good" in out, f"check says of damaged checkpoints: {code} {out}")
    service.spawn()
    code = service.ended()
    check(code == 4, f"without a good checkpoint it ended with {code}")
    service.wait_said("cairn service forget demo")
    check(not t.processes_left(), f"there run {t.processes_left()}")

    # A fresh start, because it is asked for, once by the settings and once by hand.
    anew(t)
    service.write(interval=0, fresh="if-needed")
    service.start()
    service.wait_told("STATUS=checkpoint 1 ")
    service.goes_on("anew")
    service.stop()
    service.write(interval=0)
    code, _, err = service.command("forget")
    check(code == 0 and not generations(service), f"forget: {code} {err}")
    anew(t)
    service.start()
    service.goes_on("anew, once more")


def anew(t):
    os.remove(os.path.join(t.work, "numbers"))
    os.remove(os.path.join(t.folder, "meeting"))


def ends(t, service):
    """The programs end by themselves."""
    service.wait_told("STATUS=checkpoint 1 ")
    service.stop()
    service.start()

    def end(code):
        with open(os.path.join(t.work, "end.new"), "w", encoding="utf-8") as file:
            file.write(str(code))
        os.rename(os.path.join(t.work, "end.new"), os.path.join(t.work, "end"))
        # Who serves the other one ends with it only if it is told, and not before: the other one would fail for that.
        t.wait_until(lambda: t.programs_running()["client"] == 0, "the client to end")
        for pid in processes.descendants():
            if "server.py" in processes.command_line(pid):
                os.kill(pid, signal.SIGKILL)
        return service.ended()
    code = end(7)
    check(code == 7, f"a program ended with 7, the service with {code}")
    check(generations(service), "after a failure there is nothing to go on from")
    os.remove(os.path.join(t.work, "end"))
    service.start()
    service.goes_on("after a failure")
    code = end(0)
    check(code == 0 and not generations(service), f"it ended with {code}, and left {generations(service)}")
    os.remove(os.path.join(t.work, "end"))

    service.write(programs=["sleep 1000", "/no/such/program"])
    check(service.command("check")[0] == 3, "a program that isn't there is found")
    service.spawn()
    code = service.ended()
    check(code == 127, f"with a program that isn't there it ended with {code}")
    t.wait_until(lambda: not t.processes_left(), f"the other program to end: {t.processes_left()}")
