"""The outer end of a pseudo-terminal: what a person at it would see, and type."""

import errno
import fcntl
import os
import pty
import re
import select
import struct
import termios


class Terminal:
    def __init__(self, rows=24, columns=80):
        self.master, slave = pty.openpty()
        os.set_inheritable(self.master, False)
        os.set_inheritable(slave, False)
        self.path = os.ttyname(slave)
        # Kept open until somebody else has it open as well: without an opener a read at the master would end.
        self._slave = slave
        self.resize(rows, columns)
        self.text = b""
        self.ended = False
        self._seen = 0

    def resize(self, rows, columns):
        self.size = (rows, columns)
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def started(self):
        if self._slave is not None:
            os.close(self._slave)
            self._slave = None

    def send(self, text):
        os.write(self.master, text.encode() if isinstance(text, str) else text)

    def pump(self, seconds=0.0):
        """Takes in what was printed; returns whether anything was."""
        if self.ended:
            return False
        ready, _, _ = select.select([self.master], [], [], seconds)
        if not ready:
            return False
        try:
            data = os.read(self.master, 65536)
        except OSError as error:
            if error.errno not in (errno.EIO, errno.EBADF):
                raise
            data = b""
        if not data:
            self.ended = True
            return False
        self.text += data
        return True

    def drain(self):
        while self.pump(0.0):
            pass

    def find(self, pattern):
        """Looks for a regular expression behind what was found last."""
        found = re.compile(pattern.encode() if isinstance(pattern, str) else pattern, re.S | re.M).search(self.text, self._seen)
        if found:
            self._seen = found.end()
        return found

    def skip(self):
        """Forgets what was printed so far: the next find() begins behind it."""
        self.drain()
        self._seen = len(self.text)

    def hang_up(self):
        if self.master >= 0:
            os.close(self.master)
            self.master = -1
            self.ended = True
        self.started()

    def tail(self, length=2000):
        return self.text[-length:].decode(errors="replace")


def without_messages(text):
    """Takes away the lines that cairn itself prints."""
    return re.sub(rb"(?m)^cairn[^\n]*\n", b"", text)


def stitched(whole, pieces):
    """Whether `pieces` are what an observer sees who is thrown back: each begins somewhere in what has already been
    seen, the first at the beginning, and the last reaches the end of `whole`."""
    starts = {0}
    for index, piece in enumerate(pieces):
        last = index == len(pieces) - 1
        fitting = {start for start in starts if whole.startswith(piece, start)}
        if last:
            return any(start + len(piece) == len(whole) for start in fitting)
        starts = {later for start in fitting for later in range(start, start + len(piece) + 1)}
        if not starts:
            return False
    return False
