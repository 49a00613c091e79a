"""Which hosts could take a checkpoint is asked of each, through what CAIRN_RSH names: one that could, one that lacks the folder, one
that can't be reached, one without cairn, one that never answers."""
# ci: exact user
# soak check_hosts_late: late
import os
from cairn_test import check
from cairn_test.ticking import Ticking

WAY = r"""#!/bin/sh
case $1 in
near) exec sh -c "$2" ;;
other) exec sh -c "$(printf %s "$2" | sed 's,/ckpt/,/elsewhere/,')" ;;
down) echo "ssh: connect to host down port 22: No route to host" >&2; exit 255 ;;
bare) PATH=/usr/bin:/bin exec sh -c "$(printf %s "$2" | sed "s,^c='[^']*',c=/nowhere,")" ;;
late) exec sleep 1000 ;;
esac
"""


def test(t):
    group = Ticking(t)
    t.checkpoint()
    way = os.path.join(t.work, "way")
    with open(way, "w") as file:
        file.write(WAY)
    os.chmod(way, 0o755)
    folder = t.latest()

    def ask(hosts, *options, timeout=60):
        code, out, err = t.command("restart", "--check", *options, "--on", hosts, folder, env=t.env | {"CAIRN_RSH": way},
                                   timeout=timeout)
        t.say(f"{hosts}: {code}\n{out}{err}")
        return code, out, err

    if t.arguments.names:
        code, out, err = ask("near,late,near", timeout=90)
        check(code == 3 and out.splitlines()[0] == "near: can be restarted there"
              and "\nlate: no answer within 60 s\n" in out, f"one that never answers: {code} {out}{err}")
        return
    code, out, err = ask("near,near")
    check((code, out.count("near: can be restarted there\n")) == (0, 2), f"two that could: {code} {out}{err}")
    code, out, err = ask("other,near,down,bare", "--files", "use")
    lines = [line for line in out.splitlines() if not line.startswith(" ")]
    check(code == 3 and [line.split(":")[0] for line in lines] == ["other", "near", "down", "bare"], f"{code} {out}{err}")
    check(lines[0].startswith("other: can't be restarted there: ") and "elsewhere" in lines[0], f"without the folder: {out}")
    check(lines[1] == "near: can be restarted there", f"between others: {out}")
    check(lines[2] == "down: can't be asked: ssh: connect to host down port 22: No route to host", f"not reached: {out}")
    check(lines[3].startswith("bare: can't be asked: no cairn in its PATH"), f"without cairn: {out}")
    # Options reach them: what is odd is said by who reads it.
    code, out, err = ask("near", "--part", "77")
    check(code == 3 and "77" in out, f"a part that there isn't: {code} {out}{err}")
    for hosts, options, words in (("", (), "names of hosts"), ("-oProxyCommand=x", (), "no host's name"), ("a b", (), "no host's name")):
        code, out, err = ask(hosts, *options)
        check(code == 2 and words in err, f"--on '{hosts}': {code} {out}{err}")
    code, out, err = t.command("restart", "--on", "near", folder)
    check(code == 2 and "--check" in err, f"--on alone: {code} {out}{err}")
    group.all_tick("after all questions")
