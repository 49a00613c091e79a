"""python3 at its prompt in a terminal, numpy loaded, a thread running."""
# ci: virtual userns
import os
from cairn_test import Skip


def test(t):
    if not os.path.isdir("/usr/lib/python3/dist-packages/numpy"):
        raise Skip("python3-numpy is not installed")
    t.env["PYTHON_BASIC_REPL"] = "1"  # since Python 3.13 there is one that draws each key anew
    t.env["PYTHON_COLORS"] = "0"  # nor, since then, words in colours
    python = t.launch(["/usr/bin/python3", "-q"])
    python.expect(r">>> ")

    def say(line, answer):
        python.send(line + "\n")
        python.expect(rf"{answer}\r?\n.*>>> ")

    python.send("import numpy, threading, time\n")
    python.expect(r"time\r?\n>>> ")
    python.send("beat = [0]; square = numpy.arange(10000.).reshape(100, 100)\n")
    python.expect(r"100\)\r?\n>>> ")
    python.send("def tick():\n    while True: beat[0] += 1; time.sleep(0.01)\n\n")
    python.expect(r"\.\.\. \r?\n>>> ")
    python.send("thread = threading.Thread(target=tick, daemon=True); thread.start()\n")
    python.expect(r"start\(\)\r?\n>>> ")
    say("print(int((square @ square).trace()))", "251616502500")
    for number in range(t.rounds):
        say(f"mark{number} = {number} * 7", "7")
        python, _ = t.cycle(python, number)
        say(f"print('mark', mark{number})", rf"mark {number * 7}")
        say("print(int((square @ square).trace()), float(numpy.linalg.norm(square)) > 577000)", "251616502500 True")
        # The thread goes on beating, however busy the machine is.
        python.send("before = beat[0]; waits = [time.sleep(0.01) for _ in range(3000) if beat[0] - before <= 10]; "
                    "print('beats', thread.is_alive(), beat[0] - before > 10)\n")
        python.expect(r"beats True True\r?\n>>> ")
        # Line editing is readline's: the terminal is still in the mode that it asked for.
        python.send("print('edited', 1)\x7f\x7f2)\n")
        python.expect(r"edited 2\r?\n>>> ")
        python.send("\x1b[A\x1b[A\n")
        python.expect(r"beats True True\r?\n>>> ")
        # Ctrl-C interrupts what runs in the foreground.
        python.send("time.sleep(1000)\n")
        t.sleep(0.3)
        python.send("\x03")
        python.expect(r"KeyboardInterrupt\r?\n>>> ")
    # Not exit(): Python 3.14, once it was interrupted at its prompt, ends by SIGINT then.
    python.send("import os; os._exit(3)\n")
    python.expect_exit(3)
