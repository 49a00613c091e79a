"""Programs that give root up and execute at once what doesn't load libcairn.so, as a session's only process or as a child: static programs, shells whose user may
not read the library, and shells that a static program has begun. They are members of their user's region, never of root's, and are ended with the others."""
# ci: exact
import os
import shutil
import subprocess

from cairn_test import check, modes
from cairn_test.rounds import counting

NEEDS = ["/bin/busybox", "/usr/bin/setpriv"]

NOBODY = 65534
DROP = f"import os, sys; os.setgroups([]); os.setgid({NOBODY}); os.setuid({NOBODY}); os.execvp(sys.argv[1], sys.argv[1:])"
SETPRIV = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]
SCRIPT = """#!/bin/bash
i=0
while [ $i -lt 40 ]; do
    i=$((i + 1))
    [ $i -lt 30 ] || [ -e end ] || i=1  # until there were all checkpoints
    n=$((n + 1))
    echo line $i of $(echo $i is counted | {wc}) words at $n, user $({id} -u)
    {sleep} 0.03
done
exit 7
"""


def running(script):
    """Who has the script among his words."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as file:
                if os.fsencode(script) in file.read().split(b"\0"):
                    found.append(int(pid))
        except OSError:
            pass
    return found


def region_writers(t):
    """Processes of nobody's that have root's region in their memory."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/maps") as file:
                if os.stat(f"/proc/{pid}").st_uid == NOBODY and os.path.join(t.folder, "run") in file.read():
                    found.append(int(pid))
        except OSError:
            pass
    return found


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
    su = ["busybox", "su", "-s", "/bin/bash", "nobody", "-c"]
    forms = {"static": ([*SETPRIV, "busybox", "sh"], box, False), "may not read it": (["/usr/bin/python3", "-c", DROP, "bash"], own, True),
             "until it executes": ([*SETPRIV, "bash"], own, True), "begun by a static program": (su, own, False),
             "begun by one, may not read it": (su, own, True), "as a child": (["sh", "-c", 'busybox su -s /bin/bash nobody -c "$0"; exit $?'], own, True),
             "later": (["busybox", "sh", "-c", 'busybox sleep 0.7; exec busybox su -s /bin/bash nobody -c "$0"'], own, True)}
    line = rf"line \d+ of 3 words at \d+, user {NOBODY}\r?\n"

    def look():
        t.checkpoint()
        check(region_writers(t) == [], "nobody's processes may write into root's region")

    for form, (command, tools, is_closed) in forms.items():
        if is_closed:
            subprocess.run(["mount", "--bind", closed, library], check=True)
        script = os.path.join(t.work, "script")
        with open(script, "w", encoding="utf-8") as file:
            file.write(SCRIPT.replace("{wc}", tools["wc"] + " -w").replace("{id}", tools["id"]).replace("{sleep}", tools["sleep"]))
        os.chmod(script, 0o755)
        # What a static program begins has the variable, and a loader that says so.
        counting(t, [*command, script], line=line, last=rf"line 40 of 3 words at \d+, user {NOBODY}", end=os.path.join(t.work, "end"), code=7,
                 name="libcairn" if form in ("may not read it", "until it executes") else "", before=look)
        program = t.launch([*command, script])
        program.expect(line)
        code, out, err = t.command("kill", timeout=60)
        check(code == 0, f"kill: {code} {err or out}")
        program.exit_status()
        t.wait_until(lambda: not running(script), "all to have been ended", 5)
        if is_closed:
            subprocess.run(["umount", library], check=True)
        t.say(form)
