"""Looks of the witness (docs/witness.md) at the members of a session, and what is different between those before and those after."""

import os


class Witness:
    """Several looks before and as many after, so that what moves by itself is known. What moves between few states only needs more of them."""

    def __init__(self, t, looks=3):
        self.t, self.program, self.count = t, os.path.join(t.build, "bin", "cairn-witness"), looks

    def _region(self):
        return os.path.join(self.t.env["CAIRN_RUNDIR"], self.t.name, "region")

    def _is_held(self, pid):
        """By a restart, which lets go of the programs one after the other when the session says already that they run."""
        try:
            with open(f"/proc/{pid}/status", encoding="utf-8") as file:
                tracer = next(int(line.split()[1]) for line in file if line.startswith("TracerPid:"))
            with open(f"/proc/{tracer}/comm", encoding="utf-8") as file:
                return file.read().strip() == "cairn-restart"
        except (OSError, StopIteration):
            return False

    def _members(self):
        return [str(each.get("real") or each["pid"]) for each in self.t.members()]

    def looks(self, name):
        """Their files; none if nobody was there any more."""
        found = []
        self.t.wait_until(lambda: not any(self._is_held(pid) for pid in self._members()), "the restart to let go of all")
        for number in range(self.count):
            for _ in range(10):
                members = self._members()
                if not members:
                    return []
                code, out, err = self.t.run([self.program, "--region", self._region(), *members], timeout=120)
                if code == 0:  # else all have ended meanwhile
                    break
            if code != 0:
                raise RuntimeError(f"the witness ended with {code}: {err}")
            found.append(os.path.join(self.t.folder, f"{name}-{number}.json"))
            with open(found[-1], "w", encoding="utf-8") as file:
                file.write(out)
            self.t.sleep(0.1)
        return found

    def differences(self, before, after, *options):
        """What is different, as text; "" if nothing is."""
        if not before or not after:
            return ""
        code, out, err = self.t.run([self.program, *options, "--before", *before, "--after", *after], timeout=120)
        return f"before -> after:\n{out}{err}" if code != 0 else ""
