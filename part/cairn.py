"""cairn for Python: a program that wants to take part in its checkpoints. What each function means is told in cairn.h.

    import cairn
    if cairn.checkpoint() == cairn.RESTARTED: reconnect()
    with cairn.forbidden(): write_both_files()
    cairn.hooks(before=flush, restarted=reconnect)

Without cairn, or without libcairn-part.so, all runs: enabled() is False, sections and hooks do nothing."""
import contextlib
import ctypes
import os

ORIGINAL, RESTARTED = 0, 1
FAILED, REFUSED, NO_COORDINATOR, TIMED_OUT, DISABLED, BUSY, NO_MEMORY = -1, -3, -5, -6, -20, -21, -22


class Error(Exception):
    """A checkpoint that wasn't taken; `code` is one of the negative numbers above."""

    def __init__(self, code):
        self.code = code
        names = {value: name for name, value in globals().items() if isinstance(value, int) and value < 0}
        super().__init__(f"cairn: {names.get(code, code)}")


_BEFORE = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p)
_AFTER = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_void_p)
_RESTARTED = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


class _Hooks(ctypes.Structure):
    _fields_ = [("before", _BEFORE), ("after", _AFTER), ("restarted", _RESTARTED), ("data", ctypes.c_void_p)]


def _load():
    """Beside libcairn.so under cairn, else wherever the loader finds it."""
    beside = os.path.dirname(os.environ.get("CAIRN_LIBRARY", ""))
    here = os.path.dirname(os.path.abspath(__file__))
    for folder in (beside, here, None):
        try:
            return ctypes.CDLL("libcairn-part.so" if folder is None else os.path.join(folder, "libcairn-part.so"))
        except OSError:
            continue
    return None


_library = _load()
_kept = []  # hooks are called for as long as the process lives


def enabled():
    return _library is not None and _library.cairn_enabled() == 1


def checkpoint(seconds=0):
    """ORIGINAL or RESTARTED; raises Error."""
    code = DISABLED if _library is None else _library.cairn_checkpoint(seconds)
    if code < 0:
        raise Error(code)
    return code


def forbid():
    if _library is not None and (code := _library.cairn_forbid()) < 0:
        raise Error(code)


def allow():
    if _library is not None and (code := _library.cairn_allow()) < 0:
        raise Error(code)


@contextlib.contextmanager
def forbidden():
    """A section in which no checkpoint is taken."""
    forbid()
    try:
        yield
    finally:
        allow()


def hooks(before=None, after=None, restarted=None):
    """before(): refuses the checkpoint by returning or raising something; after(what); restarted(). They are called by a
    thread of their own, which takes the interpreter's lock as any thread does."""
    if _library is None:
        return

    def call_before(_):
        try:
            why = before()
        except BaseException as error:  # not to be lost in C
            why = repr(error)
        if not why:
            return 0
        _library.cairn_refuse(str(why).encode())
        return 1

    made = _Hooks(_BEFORE(call_before) if before else _BEFORE(), _AFTER(lambda what, _: after(what)) if after else _AFTER(),
                  _RESTARTED(lambda _: restarted()) if restarted else _RESTARTED(), None)
    _kept.append(made)
    code = _library.cairn_hooks(ctypes.byref(made))
    if code < 0:
        raise Error(code)
