"""Programs in a root folder of their own, in which there is neither libcairn.so nor the session's folder: a shell of glibc's that starts others, and a static one.
Nobody says that the library isn't there."""
# ci: exact user
import os
import shutil
import subprocess

from cairn_test.rounds import counting

NEEDS = ["/bin/busybox"]

SCRIPT = """i=0
while [ $i -lt 40 ]; do
    i=$((i + 1))
    [ $i -lt 30 ] || [ -e /end ] || i=1  # until there were all checkpoints
    echo line $i | /bin/cat > /line
    n=$((n + 1))
    set -- $(/bin/wc -w < /line)
    echo "line $i of $1 words at $n"
    /bin/sleep 0.03
done
[ -e /lib/libcairn.so ] && echo sees it
(/bin/sleep 0.1) && echo the end
exit 7
"""


def furnish(root, static):
    """A root folder with what the script needs: programs of the machine's with their libraries, or busybox."""
    os.makedirs(os.path.join(root, "bin"))
    names = ["cat", "wc", "sleep"]
    if static:
        for name in ["sh", *names]:
            shutil.copy("/bin/busybox", os.path.join(root, "bin", name))
        return
    for program in ["/bin/bash", *(f"/bin/{name}" for name in names)]:
        shutil.copy(program, os.path.join(root, "bin", "sh" if program.endswith("bash") else os.path.basename(program)))
        for word in subprocess.check_output(["ldd", program], text=True).split():
            if word.startswith("/") and not os.path.exists(root + word):
                os.makedirs(os.path.dirname(root + word), exist_ok=True)
                shutil.copy(word, root + word)


def test(t):
    t.env["PATH"] += ":/usr/sbin"
    as_root = t.mode == "exact"
    for form in ("glibc", "static"):
        root = os.path.join(t.work, form)
        furnish(root, form == "static")
        with open(os.path.join(root, "script"), "w", encoding="utf-8") as file:
            file.write(SCRIPT)
        counting(t, [*([] if as_root else ["unshare", "-r"]), "chroot", root, "/bin/sh", "/script"], line=r"line \d+ of 2 words at \d+\r?\n",
                 last=r"line 40 of 2 words at \d+\r?\nthe end", end=os.path.join(root, "end"), code=7, name="libcairn")
        t.say(form)
