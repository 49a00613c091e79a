"""A full-screen program draws its screen after a restart without a key being pressed, on a terminal of the same size as before and of
another one, and so does one inside of script(1), which blocks SIGWINCH and reads it; a program that means something else by the signal isn't told of any."""
# ci: exact user
from cairn_test import check

VIM = ["vim", "-u", "NONE", "-i", "NONE", "-N", "text"]
LISTENS = 'trap "echo changed" WINCH; echo READY; while :; do sleep 0.1; done'


def editor_draws(t, command):
    vim = t.launch(command, env={"TERM": "xterm"})
    vim.expect(r"text.*\[New")
    vim.send("ia line of text")
    vim.expect("a line of text")
    for number, size in enumerate([(24, 80), (24, 80), (31, 91)]):
        vim, _ = t.cycle(vim, number, size=size)
        vim.expect("a line of text")
        t.sleep(0.3)  # it has got its size again
        vim.send("\x1b:set lines? columns?\r")
        vim.expect(rf"lines={size[0]}.*columns={size[1]}")
        vim.send("\ra")
    vim.send("\x1b:q!\r")
    vim.expect_exit(0)


def test(t):
    editor_draws(t, VIM)
    editor_draws(t, ["script", "-qfc", " ".join(VIM), "typescript"])
    shell = t.launch(["bash", "-c", LISTENS])
    shell.expect("READY")
    shell, _ = t.cycle(shell, 0)
    t.sleep(1.5)
    check(b"changed" not in shell.terminal.text, "a program that reads lines was told of another size")
    t.pull_the_plug()
