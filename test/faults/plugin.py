"""cairn launch --plugin: a program that knows nothing of cairn keeps its licence, a TCP connection to a server outside, over restarts
(examples/part/licence); without the plugin it has lost it. What is no library is refused at the launch."""
# ci: exact virtual user
import os
from cairn_test import check


def licensed(t, port, *options):
    program = t.launch([os.path.join(t.build, "bin", "part_licensed"), str(port)], options=options)
    return program


def test(t):
    port = t.random.randrange(20000, 30000)
    examples = os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))), "examples", "part", "licence")
    plugin = os.path.join(t.build, "lib", "part_licence_plugin.so")

    def server():
        program = t.launch(["/usr/bin/python3", os.path.join(examples, "server.py"), str(port)], native=True, name="server")
        program.expect("READY")
        return program

    def end():
        """All but the server, which is outside."""
        t.must("kill")
        for program in [each for each in t.programs if each is not seats]:
            program.exit_status()
            t.programs.remove(program)

    for what in ("/nowhere.so", __file__):
        code, _, err = t.command("launch", "--plugin", what, "true")
        check(code == 2 and what in err, f"--plugin {what}: {code}: {err}")

    seats = server()
    program = licensed(t, port)
    program.expect("BEAT 20")
    t.checkpoint()
    end()
    program = t.restart(name="without the plugin", wait=False)
    program.expect("LOST")
    program.exit_status()
    t.programs.remove(program)

    program = licensed(t, port, "--plugin", plugin)
    program.expect("BEAT 20")
    second = licensed(t, port, "--session", "other")
    second.expect("NO LICENCE")
    second.exit_status()
    t.programs.remove(second)
    for number in range(t.rounds):
        t.checkpoint()
        program.expect("BEAT")
        end()
        program = t.restart(name=f"restart {number + 1}")
        for _ in range(3):
            program.expect("BEAT")
        seats.expect("RESUME OK")
        t.say(f"round {number + 1}: the licence is taken up again")
    with open(os.path.join(t.work, "stop"), "w"):
        pass
    program.expect("DONE")
    program.expect_exit(0)
