"""bash at its prompt in a terminal with background jobs and a pipeline; then one types into it."""
# ci: user (whose ids are virtual; a user namespace adds ids, and other tests have those)


def test(t):
    bash = t.launch(["bash", "--norc", "--noprofile", "-i"], env={"PS1": "$ ", "HISTFILE": "/dev/null"})
    bash.expect(r"\$ ")

    def type_line(line, *answers, prompt=True):
        bash.send(line + "\n")
        for answer in answers:
            bash.expect(answer)
        if prompt:
            bash.expect(r"\r?\n\$ |\$ ")

    type_line("bind 'set enable-bracketed-paste off'")
    type_line("PS1='PROMPT> '", prompt=False)
    bash.expect(r"\r?\nPROMPT> ")
    typed = 0

    def run(line, answer=None):
        nonlocal typed
        typed += 1
        bash.send(f"{line}; echo done-$(({typed}+0))\n")
        if answer:
            bash.expect(answer)
        bash.expect(rf"^done-{typed}\r?\n.*PROMPT> ")

    run("sleep 1000 & first=$!")
    run("(while sleep 0.02; do echo tick; done) > ticks & second=$!")
    run("(while sleep 0.02; do echo beat; done) | cat | cat > beats & :")
    run("true & early=$!; sleep 0.2")  # ended, and bash has not been asked for it
    for number in range(t.rounds):
        run(f"variable={number}")
        bash.send("half a li")  # in the line editor's hands when the checkpoint is taken
        t.sleep(0.2)
        bash, _ = t.cycle(bash, number)
        bash.send("\x15")
        run("echo $((variable * 3 + 1000))", rf"\r?\n{number * 3 + 1000}\r?\n")
        run("jobs", r"\[1\][ +-]+Running +sleep 1000 &.*\[2\].*Running.*\[3\].*Running.*cat > beats")
        run("kill -0 $first && kill -0 $second && echo alive", r"\nalive\r?\n")
        run("a=$(wc -l < ticks); until [ $(wc -l < ticks) -gt $((a + 5)) ]; do sleep 0.1; done; echo moved $((3+4))", r"moved 7\r?\n")
        run("a=$(wc -l < beats); until [ $(wc -l < beats) -gt $((a + 5)) ]; do sleep 0.1; done; echo moved $((3+4))", r"moved 7\r?\n")
        # Ctrl-C and Ctrl-Z reach the foreground job and nobody else.
        bash.send("sleep 500\n")
        t.sleep(0.3)
        bash.send("\x03")
        bash.expect(r"\^C.*PROMPT> ")
        run("echo code $?", r"code 130\r?\n")  # by SIGINT
        bash.send("sleep 600\n")
        t.sleep(0.3)
        bash.send("\x1a")
        bash.expect(r"\[4\]\+ +Stopped +sleep 600.*PROMPT> ")
        if number % 2 == 0:  # a stopped job goes over a checkpoint, too
            bash, _ = t.cycle(bash, number)
            bash.send("\n")
            bash.expect(r"PROMPT> ")
            run("jobs", r"\[4\]\+ +Stopped +sleep 600")
        bash.send("fg\n")
        bash.expect(r"sleep 600\r?\n")
        t.sleep(0.3)
        bash.send("\x03")
        bash.expect(r"PROMPT> ")
        # What is in /proc's files are the kernel's ids (so `ps -p $$` finds nobody with virtual ids); the path is ours.
        # It may not have fallen asleep yet in its wait for awk: R.
        bash.send("awk '{print $3, $1 == $6}' /proc/$$/stat; stty size\n")
        bash.expect(r"[RS] 1\r?\n(24 80|\d+ 100)\r?\n.*PROMPT> ")
        bash.terminal.resize(30 + number, 100)
        t.sleep(0.2)
        run("stty size", rf"{30 + number} 100\r?\n")
    run("kill $first; wait $first; echo ended $?", r"ended 143\r?\n")
    run("wait $early; echo early $?", r"early 0\r?\n")
    run("kill %2 %3; wait; jobs")
    bash.send("exit 7\n")
    bash.expect_exit(7)
