"""Copies of one checkpoint at the same time, in sessions of their own, beside the original: what they exec joins the
session that they are in, each can be checkpointed, and a copy's checkpoint can be restarted."""
# ci: exact user
import os
from cairn_test import check

SCRIPT = r"""
turn=0
while :; do
    turn=$((turn + 1))
    /bin/sh -c 'echo $PPID $0 $CAIRN_REGION' $turn >>lines
    sleep 0.05
done
"""


def test(t):
    program = t.launch(["bash", "-c", SCRIPT], terminal="none")

    def turns(session, pid):
        with open(os.path.join(t.work, "lines")) as file:
            lines = [line.split() for line in file if line.endswith("\n")]
        region = os.path.join(t.env["CAIRN_RUNDIR"], session, "region")
        return [int(line[1]) for line in lines if line[0] == str(pid) and line[2:] == [region]]

    def goes_on(session, when):
        before = len(turns(session, program.pid))
        t.wait_until(lambda: len(turns(session, program.pid)) > before + 3,
                     f"session {session} to go on {when}", 20)

    t.wait_until(lambda: os.path.exists(os.path.join(t.work, "lines")), "the first line")
    goes_on("default", "at the beginning")
    folder = t.checkpoint()
    script = os.path.join(folder, "restart.sh")
    copies = {}
    for session in ("second", "third"):
        copies[session] = t.restart("--session", session, script=script, ids="virtual", wait=False, terminal="none",
                                    name=session)
    for session in ("default", "second", "third"):
        goes_on(session, "beside the others")
    for session in ("second", "third"):
        code, out, err = t.command("checkpoint", "--session", session,
                                   "--ckptdir", os.path.join(t.folder, f"ckpt-{session}"))
        check(code == 0, f"checkpoint of {session}: {code} {err}")
        goes_on(session, "after its checkpoint")
    for session in ("second", "third"):
        t.must("kill", "--session", session)
        copies[session].exit_status()
    goes_on("default", "when the copies have gone")
    # A copy's own checkpoint is as good as any: in the first copy's session, and in one that is new.
    for session in ("second", "fourth"):
        began = len(turns(session, program.pid))
        copy = t.restart("--session", session, script=os.path.join(t.folder, "ckpt-second", "restart.sh"),
                         ids="virtual", wait=False, terminal="none", name=session)
        t.wait_until(lambda: len(turns(session, program.pid)) > began + 3, f"session {session} from the copy's checkpoint")
        t.must("kill", "--session", session)
        copy.exit_status()
    goes_on("default", "at the end")
