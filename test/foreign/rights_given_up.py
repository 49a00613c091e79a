"""Programs that give root up and execute at once what doesn't load libcairn.so, as a session's only process: a static program, and shells whose user may not read
the library. One of them keeps its capabilities until then: its loader says that it can't be read, the others' don't."""
# ci: exact
import os
import shutil
import subprocess

from cairn_test import check, modes

NEEDS = ["/bin/busybox", "/usr/bin/setpriv"]

NOBODY = 65534
DROP = f"import os, sys; os.setgroups([]); os.setgid({NOBODY}); os.setuid({NOBODY}); os.execvp(sys.argv[1], sys.argv[1:])"
SETPRIV = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]
SCRIPT = """i=0
while [ $i -lt 40 ]; do
    i=$((i + 1))
    [ $i -lt 30 ] || [ -e end ] || i=1  # until there were all checkpoints
    n=$((n + 1))
    echo line $i of $(echo $i is counted | {wc}) words at $n, user $({id} -u)
    {sleep} 0.03
done
exit 7
"""


def test(t):
    modes.enter_own_mounts()
    # Whoever isn't root sees a library that he may not read.
    library, closed = os.path.join(t.build, "lib", "libcairn.so"), os.path.join(t.folder, "libcairn.so")
    shutil.copy(library, closed)
    os.chmod(closed, 0o600)
    for path in (t.folder, t.work):
        os.chmod(path, 0o755)
    box = {name: f"busybox {name}" for name in ("wc", "id", "sleep")}
    own = {name: name for name in box}
    forms = {"static": ([*SETPRIV, "busybox", "sh"], box, False), "may not read it": (["/usr/bin/python3", "-c", DROP, "bash"], own, True),
             "until it executes": ([*SETPRIV, "bash"], own, True)}
    for form, (command, tools, is_closed) in forms.items():
        if is_closed:
            subprocess.run(["mount", "--bind", closed, library], check=True)
        script = os.path.join(t.work, "script")
        with open(script, "w", encoding="utf-8") as file:
            file.write(SCRIPT.replace("{wc}", tools["wc"] + " -w").replace("{id}", tools["id"]).replace("{sleep}", tools["sleep"]))
        program = t.launch([*command, script])
        for number in range(t.rounds):
            program.expect(rf"line \d+ of 3 words at \d+, user {NOBODY}\r?\n")
            program, _ = t.cycle(program, number, at_once=True)
        with open(os.path.join(t.work, "end"), "w", encoding="utf-8"):
            pass
        program.expect(rf"line 40 of 3 words at \d+, user {NOBODY}", 60)
        program.expect_exit(7)
        os.unlink(os.path.join(t.work, "end"))
        if is_closed:
            subprocess.run(["umount", library], check=True)
        said = any(b"libcairn" in each.terminal.text for each in t.programs)
        check(said == (form == "until it executes"), f"{form}: {said}, {program.terminal.tail()}")
        t.say(form)
