"""A client of the coordinator (docs/protocol.md): to act at the very moment of an event."""

import json
import os
import socket

from .session import SLOW, Failure


class Events:
    def __init__(self, session):
        self.session = session
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.socket.connect(os.path.join(session.env["CAIRN_RUNDIR"], session.name, "socket"))
        self.seen = []

    def ask(self, request):
        self.socket.send(json.dumps(request).encode())

    def next(self, timeout=30.0):
        """The next event, None when the coordinator closed the connection."""
        self.socket.settimeout(timeout * SLOW)
        try:
            data = self.socket.recv(1 << 18)
        except TimeoutError:
            raise Failure(f"no event from the coordinator in {timeout * SLOW:.0f} s; the last ones: {self.seen[-3:]}") from None
        except ConnectionResetError:
            return None
        if not data:
            return None
        event = json.loads(data)
        self.seen.append(event)
        return event

    def wait_phase(self, name):
        """Returns True when the phase begins, False when the checkpoint ended without it."""
        while (event := self.next()) is not None:
            if event["event"] == "phase" and event["name"] == name:
                return True
            if event["event"] in ("done", "failed"):
                return False
        return False

    def wait_end(self):
        if self.seen and self.seen[-1]["event"] in ("done", "failed"):
            return self.seen[-1]
        while (event := self.next()) is not None:
            if event["event"] in ("done", "failed"):
                return event
        raise Failure(f"the coordinator closed the connection; the last events: {self.seen[-3:]}")

    def close(self):
        self.socket.close()
