"""Sandboxes of bubblewrap's in which neither the session's folder is nor, in two of them, libcairn.so, and of which two have a network of their own: nobody has to
show a sandbox anything of cairn's."""
# ci: exact user
import os

from cairn_test.rounds import counting

NEEDS = ["/usr/bin/bwrap"]

SCRIPT = """i=0
while [ $i -lt 40 ]; do
    i=$((i + 1))
    [ $i -lt 30 ] || [ -e end ] || i=1  # until there were all checkpoints
    echo line $i | cat > /tmp/line
    echo "line $i of $(cat /tmp/line | wc -w) words at $((++n))"
    sleep 0.03
done
[ -e /tmp/cairn* ] && echo sees it
[ $BASHPID = $$ ] && (sleep 0.1) && echo the end
exit 7
"""


def box(t, project, *more):
    return ["bwrap", "--unshare-user", "--ro-bind", "/usr", "/usr", "--symlink", "usr/bin", "/bin", "--symlink", "usr/lib", "/lib", "--symlink", "usr/lib64", "/lib64",
            "--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp", *more, "--bind", project, "/home/box", "--chdir", "/home/box", "/bin/bash", "script.sh"]


def test(t):
    project = os.path.join(t.work, "project")
    os.makedirs(project)
    with open(os.path.join(project, "script.sh"), "w", encoding="utf-8") as file:
        file.write(SCRIPT)
    library = ["--ro-bind", t.build, t.build]
    forms = {"sees the library": library, "sees nothing": [], "library, own network": [*library, "--unshare-net"], "nothing, all its own": ["--unshare-all"]}
    for form, options in forms.items():
        counting(t, box(t, project, *options), line=r"line \d+ of 2 words at \d+\r?\n", last=r"line 40 of 2 words at \d+\r?\nthe end",
                 end=os.path.join(project, "end"), code=7, name="libcairn")
        t.say(form)
