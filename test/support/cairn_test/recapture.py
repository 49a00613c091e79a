"""A checkpoint of what was restored says the same as the one that it was restored from (`cairn inspect --diff`), but for what is named here."""

import json
import os
import re

# What may differ: a regular expression over "WHERE, WHERE, WHERE", and why.
RULES = [
    (r".*, content", "what is in memory is compared by the witness, which knows what of it is cairn's and what is dead"),
    (r".*, stored|.*, stored_bytes", "whether an untouched page of zeros is stored depends on who has touched it"),
    (r"process [^,]*, ppid", "who had launched it is the restart tool now"),
    (r".*, object, identity, mtime_ns|.*, cwd, identity, mtime_ns|.*, root, identity, mtime_ns", "somebody has written there meanwhile: what is compared with a file "
     "at the next restart is what it is at this checkpoint"),
    (r".*, memory at [0-9a-f]+, (name|object(, (flags|path|identity|what)(, .*)?)?)", "shared memory without a file comes back as a memfd"),
    (r".*, memory at [0-9a-f]+, file_offset", "of memory without a file it says where it was made first"),
    (r".*, memory at [0-9a-f]+(, end)?", "neighbours of one kind are one mapping or two as the kernel comes by; the witness compares what is where"),
    (r".*, descriptor [0-9]+, object, flags", "O_LARGEFILE and O_NOFOLLOW say how open(2) went; the witness compares the rest"),
    (r".*, object, (identity, inode|path)", "what has no name any more has had another when it was removed again (named_otherwise() looks at the others)"),
    (r".*, object, what, timerfd, (left_ns|at_ns|ticks)", "a timer that runs has gone on"),
    (r".*, object, what, mqueue, queue", "an inode"),
    (r".*, what, unix, messages, [0-9]+, sender, pid", "an ordinary user can't send in another's name (unix(7), SCM_CREDENTIALS): what waits names the restart tool"),
    (r".*, object, what, io_uring, ring", "unused places hold what was there last (docs/witness-rules.md); resource.io_uring compares the used ones"),
    (r".*, object, what, inotify, unread", "events that nobody has read become an overflow"),
    (r".*, object, what, bpf_map, elements", "a hash is walked in the kernel's order; resource.bpf_map compares them"),
    (r".*, options, (IPV6_V6ONLY|IP_MULTICAST_TTL)", "what bind(2) and a segment set of themselves (docs/witness-rules.md)"),
    (r".*, what, unix, (file|moved)", "an accepted connection has its listener's name, and after a restart not its file's inode; resource.unix_sockets compares the files"),
    (r".*, what, unix, peer_credentials, pid", "of a caller whom nobody has accepted (docs/witness-rules.md)"),
    (r".*, mptcp, options, SO_SNDBUF|.*, options, SO_RCVLOWAT", "the kernel sizes the one, and 0 means 1 for the other (docs/witness-rules.md)"),
    (r"process [^,]*, (thread [0-9]+, )?pending(, [0-9]+)?", "a waiting SIGTRAP names the restart tool, and timers that run expire meanwhile; resource.signals compares them"),
    (r"process [^,]*, itimers, [0-9], left_us|.*, timers, [0-9]+, left", "a timer that runs has gone on"),
    (r"process [^,]*, thread [0-9]+, death_signal", "the programs end with the restart tool (docs/decisions/0014-restart-signals.md)"),
]


def named_otherwise(each):
    """Another path of something that has one: a file in a folder, not one that was removed or never had a name."""
    if each["where"][-1] != "path" or "before" not in each or "after" not in each:
        return False
    name = os.path.basename(each["after"])
    return not (name.startswith((".cairn-", "cairn-", "#")) or each["after"].startswith("/memfd:"))


def of_one_who_has_gone(each):
    """A file of proc(5) whose process isn't there any more, and has come back as the same of another."""
    paths = [re.fullmatch(r"/proc/([0-9]+)(/.*| \(deleted\)|)", str(each.get(which))) for which in ("before", "after")]
    return all(paths) and paths[0][2] == paths[1][2] and not any(os.path.exists(f"/proc/{path[1]}") for path in paths)


def in_a_handler(each):
    """A signal that came as the thread was stopped has been delivered: its handler is about to run, and has that signal blocked."""
    if each["where"][-1] != "blocked" or "before" not in each or "after" not in each:
        return False
    return bin(int(each["before"]) ^ int(each["after"])).count("1") == 1


def guard_pages(all_of_it, side):
    """Of mappings that are there once only or have other guard pages, as "PROCESS, ADDRESS": whether the kernel has joined two neighbours or not, the pages are the same."""
    pages = set()
    for each in all_of_it:
        where = each["where"]
        if len(where) < 2 or not where[1].startswith("memory at ") or side not in each:
            continue
        for start, length in each[side]["guards"] if len(where) == 2 else each[side] if where[2:] == ["guards"] else []:
            pages |= {f"{where[0]}, {at:x}" for at in range(start, start + length, 4096)}
    return pages


def is_of_mounts_outside(each):
    """Network namespaces that other programs on the machine name (ip-netns(8)) are mounted in every mount namespace that receives what is mounted outside."""
    if each["where"][-1] != "mounts" or "before" not in each or "after" not in each:
        return False
    before, after = ([one for one in each[side] if not (one["inherited"] and one["point"].startswith("/run/netns/"))] for side in ("before", "after"))
    return before == after


def differences(t, older, newer, handles=False):
    """As text; "" if nothing differs that no rule names. Folders of checkpoints. `handles`: signals come to its threads all the time."""
    code, out, err = t.run([t.cairn, "inspect", "--diff", "--json", older, newer], timeout=60)
    if code not in (0, 1):
        return f"inspect --diff ended with {code}: {err}"
    found = []
    all_of_it = json.loads(out)
    gone = [each["where"][:-1] for each in all_of_it if of_one_who_has_gone(each)]
    guards_before, guards_after = guard_pages(all_of_it, "before"), guard_pages(all_of_it, "after")
    if guards_before != guards_after:
        found.append(f"guard pages: {sorted(guards_before - guards_after)} have gone, {sorted(guards_after - guards_before)} have come\n")
    for each in all_of_it:
        where = ", ".join(each["where"])
        if each["where"][2:] == ["guards"]:
            continue
        if is_of_mounts_outside(each) or (handles and in_a_handler(each)):
            continue
        # Inodes of proc(5) are others at each look.
        if of_one_who_has_gone(each) or any(each["where"] == [*folder, "identity", "inode"] for folder in gone):
            continue
        if named_otherwise(each) or not any(re.fullmatch(rule, where) for rule, _ in RULES):
            found.append(f"{where}: {each.get('before', '(not there)')} -> {each.get('after', '(not there)')}\n")
    return "".join(found)
