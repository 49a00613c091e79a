"""Sandboxes of bubblewrap's with other views of the files, as people call it: the machine read-only with a /dev and /proc of its own; an empty
/home or /tmp with a folder of it bound back; a root folder put together from /usr"""
# ci: user
import os

NEEDS = ["/usr/bin/bwrap"]

LOOK = """i=0
while [ $i -lt 60 ]; do
    i=$((i + 1))
    [ $i -lt 50 ] || [ -e "$2" ] || i=1  # until there were all checkpoints
    echo "line $i: $(eval "$1" 2>&1 | tr '\\n' ' ')"
    sleep 0.03
done
exit 7
"""


def views(t):
    """Of each its name, how it is begun, what it looks at, and what it sees."""
    back = ["--bind", t.folder, t.folder]
    root = ["--ro-bind", "/usr", "/usr", "--symlink", "usr/bin", "/bin", "--symlink", "usr/lib", "/lib", "--symlink", "usr/lib64", "/lib64",
            "--ro-bind", "/etc", "/etc", "--proc", "/proc", "--dev", "/dev", "--tmpfs", "/run", "--ro-bind", t.build, t.build]
    read_only = "touch /etc/cairn-test 2> /dev/null || echo read-only; cat shown; ls /dev/shm | wc -l"
    yield "read-only", [*back, "--dev", "/dev", "--proc", "/proc"], ["--ro-bind", "/", "/"], read_only, "read-only it is shown 0 "
    hidden = os.path.join(t.work, "hidden")
    hides = ["--tmpfs", hidden, "--bind", f"{hidden}/one", f"{hidden}/one", "--ro-bind", f"{hidden}/file", f"{hidden}/file"]
    yield "bound back", hides, ["--dev-bind", "/", "/"], "ls hidden hidden/one; cat hidden/file", "hidden: file one  hidden/one: in it of the file "
    own = "pwd; ls /run; echo $$; cat /proc/1/comm; cat shown"
    yield "from /usr", [*back, "--unshare-pid", "--unshare-net", "--chdir", t.work], root, own, f"{t.work} 2 bwrap it is shown "


def test(t):
    os.makedirs(os.path.join(t.work, "hidden/one"))
    for name, text in (("look.sh", LOOK), ("shown", "it is shown\n"), ("hidden/one/in it", ""), ("hidden/file", "of the file\n")):
        with open(os.path.join(t.work, name), "w", encoding="utf-8") as file:
            file.write(text)
    for number, (name, own, base, look, seen) in enumerate(views(t)):
        t.say(name)
        end = os.path.join(t.work, f"end.{number}")
        program = t.launch(["bwrap", *base, *own, "bash", os.path.join(t.work, "look.sh"), look, end])
        for number in range(t.rounds):
            program.expect(rf"line \d+: {seen}\r?\n")
            program, _ = t.cycle(program, number, at_once=True)
        with open(end, "w"):
            pass
        program.expect(rf"line 60: {seen}\r?\n", 60)
        program.expect_exit(7)
