"""Checkpoints whose cairn-capture is killed (kill -9) at a named moment."""
from .session import Failure


def new_coordinator(t, fault=None):
    """In the place of the one that there may be; with a fault (CAIRN_FAULT) or without."""
    t.command("quit")
    if fault:
        t.env["CAIRN_FAULT"] = fault
    t.must("coordinator", "--daemon")
    t.env.pop("CAIRN_FAULT", None)
    t.wait_members(1)


def checkpoint_killed_in(t, phase):
    new_coordinator(t, f"{phase}:kill")
    code, _, err = t.command("checkpoint", timeout=60)
    if code != 1 or f"ended in phase {phase}" not in err:
        raise Failure(f"{phase}: {code} {err}")
