"""less in a terminal."""
# ci: virtual userns
import os


def settle(t, program):
    """Until it draws no more: a restart makes the window smaller by a line for a moment, so that the program draws again, and a key that comes
    then moves by less, or is lost to the signal."""
    seen = -1
    while seen != len(program.terminal.text):
        seen = len(program.terminal.text)
        t.sleep(0.7)
        t.pump(0)


def test(t):
    with open(os.path.join(t.work, "text"), "w") as file:
        file.writelines(f"this is line {number} of the text\n" for number in range(1, 2001))
    less = t.launch(["less", "-X", "text"], env={"LESS": ""})
    less.expect(r"line 23 of")
    line = 1
    for number in range(t.rounds):
        less, _ = t.cycle(less, number)
        settle(t, less)
        less.send("r")
        less.expect(rf"line {line} of.*line {line + 22} of")
        less.send(" ")
        line += 23
        less.expect(rf"line {line} of.*line {line + 22} of")
        target = 500 + 100 * number
        less.send(f"/line {target} of\r")
        less.expect(rf"line \S*{target}\S* of.*line {target + 22} of")
        line = target
    less.send("G")
    less.expect(r"line 2000 of")
    less.send("q")
    less.expect_exit(0)
