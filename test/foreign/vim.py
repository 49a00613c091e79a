"""vim in a terminal: keys still work, the screen is drawn again."""
# ci: exact user
import os
from cairn_test import check


def test(t):
    vim = t.launch(["vim", "-u", "NONE", "-i", "NONE", "-N", "text"], env={"TERM": "xterm"})
    vim.expect(r"text.*\[New")
    vim.send("ifirst line\r")
    for number in range(t.rounds):
        vim.send(f"typed before {number} ")
        vim.expect(rf"before {number}")
        vim, _ = t.cycle(vim, number)  # in the middle of insert mode
        vim.send(f"and after {number}\r")
        vim.expect(rf"after {number}")
        vim.send("\x1b")
        t.sleep(0.3)
        vim.terminal.skip()
        vim.send("\x0c")  # Ctrl-L
        vim.expect(rf"first line.*typed before {number} and after {number}")
        vim.terminal.resize(40, 100)
        t.sleep(0.3)
        vim.send(":set lines? columns?\r")
        vim.expect(r"lines=40.*columns=100")
        vim.send("\r")
        t.sleep(0.2)
        vim.send("Go")
    vim.send("last\x1b")
    t.sleep(1.2)
    vim.send("u")
    t.sleep(0.2)
    vim.send("\x12")  # undone and done again: the undo tree lives in memory
    t.sleep(0.2)
    vim.send(":wq\r")
    vim.expect_exit(0)
    with open(os.path.join(t.work, "text")) as file:
        lines = [line for line in file.read().split("\n") if line]
    expected = ["first line"] + [f"typed before {n} and after {n}" for n in range(t.rounds)] + ["last"]
    check(lines == expected, f"the file says {lines}, {expected} was expected")
