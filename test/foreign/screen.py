"""screen with two windows in a terminal: what one types reaches the window, and the other goes on."""
# ci: user
import os
import shutil
from cairn_test import Skip


def test(t):
    if not shutil.which("screen"):
        raise Skip("screen isn't installed")
    if t.mode == "userns":
        raise Skip("screen gives its terminals to the group tty, which a user namespace of an ordinary user's doesn't have")
    with open(os.path.join(t.work, "screenrc"), "w") as file:
        file.write("startup_message off\ndeflogin off\nvbell off\nautodetach on\nhardstatus alwayslastline 'STATUS %n'\n"
                   "shell /bin/bash\n")
    folder = os.path.join(t.work, "sockets")
    os.mkdir(folder, 0o700)
    program = t.launch(["screen", "-c", "screenrc", "bash", "--norc", "--noprofile"], env={"PS1": "first> ", "SCREENDIR": folder})
    program.expect("STATUS 0")
    ticks = os.path.join(t.work, "ticks")
    program.send("screen bash --norc --noprofile\r")
    program.expect("STATUS 1")
    program.send("while sleep 0.02; do echo tick >> ticks; done\r")
    t.wait_until(lambda: os.path.exists(ticks), "the second window to be at work")
    program.send("\x010")
    program.expect("STATUS 0")
    program.send("variable=0\r")
    for number in range(t.rounds):
        program.send("half a li")
        t.sleep(0.2)
        program, _ = t.cycle(program, number)
        program.send("\x15")
        program.send("variable=$((variable + 7)); echo answer-$((variable * 3))-\r")
        program.expect(rf"answer-{(number + 1) * 21}-")
        size = os.path.getsize(ticks)
        t.wait_until(lambda: os.path.getsize(ticks) > size + 25, "the second window to go on")
        program.send("\x01c")
        program.expect("STATUS 2")
        program.send(f"echo window $((500 + {number}))-; sleep 0.2; exit\r")
        program.expect(rf"window {500 + number}-")
        program.expect("STATUS 0")
        program.terminal.resize(30 + number, 100)
        t.sleep(0.3)
        program.send("stty size\r")
        program.expect(rf"{29 + number} 100")
        program.send("screen -X hardstatus alwayslastline 'STATUS %n' && echo 'heard '\r")
        program.expect("heard ")
    program.send("screen -X quit\r")
    program.expect_exit(0)
