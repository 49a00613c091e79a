"""A script in a sandbox of bubblewrap's: a root folder in memory in which some of the machine's folders are mounted, read-only or under another name, a user namespace and others of its own."""
# ci: exact user
import os

NEEDS = ["/usr/bin/bwrap"]

SCRIPT = """i=0 n=0
while [ $i -lt 60 ]; do
    i=$((i + 1)) n=$((n + 1))
    [ $i -lt 50 ] || [ -e end ] || i=1  # until there were all checkpoints
    echo line $i | cat >> /tmp/lines
    echo "line $i of $(hostname) in $(pwd): $(ls / | tr '\\n' ' ')"
    sleep 0.03
done
touch /usr/of-mine 2>/dev/null && echo may write
test "$(wc -l < /tmp/lines)" = $n && test "$(cat input)" = "from outside" && test "$(stat -c %t /dev/console)" = 88 && echo the end
exit 7
"""


def test(t):
    project = os.path.join(t.work, "project")
    os.makedirs(project)
    for name, text in (("script.sh", SCRIPT), ("input", "from outside\n")):
        with open(os.path.join(project, name), "w") as file:
            file.write(text)
    spare = os.openpty()
    program = t.launch(["bwrap", "--unshare-user", "--unshare-uts", "--unshare-ipc", "--unshare-net", "--unshare-cgroup-try", "--hostname", "boxed",
                        "--ro-bind", "/usr", "/usr", "--symlink", "usr/bin", "/bin", "--symlink", "usr/lib", "/lib", "--symlink", "usr/lib64", "/lib64",
                        "--dev", "/dev", "--tmpfs", "/tmp", "--ro-bind", t.build, t.build, "--bind", t.folder, t.folder, "--bind", project, "/home/box",
                        "--chdir", "/home/box", "/bin/bash", "script.sh"])
    for number in range(t.rounds):
        program.expect(rf"line \d+ of boxed in /home/box: (\S+ )*bin (\S+ )*dev (\S+ )*home (\S+ )*lib lib64 (\S+ )*tmp (\S+ )*usr ")
        if number == 0:  # a terminal of another number comes, and /dev/console is bound to the program's
            for end in spare:
                os.close(end)
        program, _ = t.cycle(program, number, at_once=True)
    with open(os.path.join(project, "end"), "w"):
        pass
    program.expect(r"line 60 of boxed in /home/box:[^\n]*\r?\nthe end", 60)
    program.expect_exit(7)
