"""A member that has become another user writes what it likes into all that it can write, while root checkpoints, lists,
restarts and kills. Nothing but its own entries may be disturbed (docs/security.md).

It claims to be processes of root's and of its own user's outside, names files of root's as the region's, forges doors and
copy-on-write children, and fills its region with random bytes. `--soak`: for an hour."""
import os
import signal
import time
from cairn_test import check, processes
from cairn_test.ticking import Ticking
NEEDS = ["/usr/bin/setpriv"]

NOBODY = 65534

HOSTILE = r"""
import ctypes, fcntl, mmap, os, random, re, socket, struct, sys, time
results, seconds, seed = sys.argv[1], float(sys.argv[2]), int(sys.argv[3])
victims, secret = [int(word) for word in sys.argv[4].split(",")], sys.argv[5]
rng = random.Random(seed)
log = open(results, "w", buffering=1)
def say(text): print(text, file=log)

def regions():
    found = []
    with open("/proc/self/maps") as maps:
        for line in maps:
            words = line.split(None, 5)
            if words[1].startswith("rw-s") and len(words) > 5 and ("cairn-region" in words[5] or words[5].strip().endswith("/region")):
                begin, end = (int(word, 16) for word in words[0].split("-"))
                found.append((begin, end, words[5].strip()))
    return found

mine = regions()
say(f"mapped {mine}")
assert len(mine) == 1, mine
begin, end, _ = mine[0]
memory = (ctypes.c_char * (end - begin)).from_address(begin)

# The owner's region by its path, and whatever the gate hands out.
try:
    os.open(os.environ["CAIRN_REGION"], os.O_RDWR)
    say("BREACH the owner's region can be opened")
except OSError:
    say("held: the owner's region")
def at_gate():
    asked = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    asked.settimeout(10)
    asked.connect("\0" + os.environ["CAIRN_GATE"].split(":", 1)[1])
    return socket.recv_fds(asked, 100, 4)[1]
own = os.stat(f"/proc/self/map_files/{begin:x}-{end:x}").st_ino if os.access(f"/proc/self/map_files/{begin:x}-{end:x}", os.F_OK) else None
for descriptor in at_gate():
    try:
        os.ftruncate(descriptor, 0)
        say("BREACH the region could be cut")
    except OSError:
        say("held: cut the region")
    if "cairn-region" not in os.readlink(f"/proc/self/fd/{descriptor}"):
        say("BREACH the gate hands out " + os.readlink(f"/proc/self/fd/{descriptor}"))
    os.close(descriptor)

# struct Slot (common/region.h): 128 bytes; state, pid, parent, image, born, region_at, door, name, flags, foreign
SLOT = 128
def find_slots():
    data = bytes(memory)
    pid = os.getpid()
    for at in range(0, len(data) - SLOT, 64):
        state, who = struct.unpack_from("<Ii", data, at)
        if state in (1, 2, 3) and who == pid and struct.unpack_from("<Q", data, at + 24)[0] == begin:
            return at
    return None
slot = find_slots()
say(f"slot at {slot}")
while not os.path.exists(sys.argv[6]):
    time.sleep(0.01)
path = bytes(memory).find(os.environ["CAIRN_REGION"].encode())
until, wild = time.monotonic() + seconds, time.monotonic() + seconds / 2
claims = turns = 0
while time.monotonic() < until:
    turns += 1
    if path >= 0:
        memory[path:path + len(secret) + 1] = secret.encode() + b"\0"
        try:
            for descriptor in at_gate():
                text = os.pread(descriptor, 64, 0)
                if b"SECRET" in text:
                    say("BREACH the secret was handed out")
                os.close(descriptor)
        except OSError:
            pass
    if slot is not None and time.monotonic() < wild:
        # Claims about others, in slots of all states, with doors at random and into oneself.
        for number in range(1, 64):
            at = slot + SLOT * number
            if at + SLOT > len(memory):
                break
            struct.pack_into("<IiiIQQQQI", memory, at, rng.choice((1, 2, 2, 2, 3)), rng.choice(victims + [1, os.getppid(), 2 ** 22]),
                             rng.choice(victims + [os.getpid()]), 1, rng.getrandbits(40), begin, rng.choice((begin, rng.getrandbits(47))),
                             rng.getrandbits(64), rng.choice((0, 1, 2, 4)))
            claims += 1
        # The words between agent and capture: their last is the pid of a copy-on-write child.
        for _ in range(256):
            at = rng.randrange(len(memory) // 64) * 64 + 16
            struct.pack_into("<i", memory, at, rng.choice(victims))
    else:
        for _ in range(64):
            size = rng.choice((1, 8, 64, 4096))
            at = rng.randrange(len(memory) - size)
            memory[at:at + size] = rng.randbytes(size)
    time.sleep(0.002)
say(f"claims {claims}, turns {turns}, end")
time.sleep(1000)
"""


def outsider(t, user):
    """A process outside of the session."""
    def become():
        os.setgroups([])
        os.setresgid(user, user, user)
        os.setresuid(user, user, user)
    pid = os.fork()
    if pid == 0:
        os.setsid()
        if user:
            become()
        os.execv("/bin/sleep", ["sleep", "100000"])
    return pid


def test(t):
    seconds = 3600 if t.soak else 60
    os.chmod(t.folder, 0o711)
    secret = os.path.join(t.folder, "secret")
    with open(secret, "w") as file:
        file.write("SECRET of root's\n")
    os.chmod(secret, 0o600)
    group = Ticking(t)
    outside = [outsider(t, 0), outsider(t, NOBODY)]
    coordinator = t.coordinator_pid()
    victims = outside + [coordinator] + [count[0] for count in group.counts()]
    results = os.path.join(t.work, "results")
    with open(results, "w"):
        pass
    os.chown(results, NOBODY, NOBODY)
    launched = {each["pid"] for each in t.members()}
    known = os.path.join(t.work, "known")
    t.launch(["/usr/bin/setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", "/usr/bin/python3", "-c", HOSTILE,
              results, str(seconds), str(t.random.randrange(1 << 30)), ",".join(map(str, victims)), secret, known], terminal="none")
    t.wait_until(lambda: "slot at" in open(results).read() or "BREACH" in open(results).read(), "the hostile member to begin", 60)

    def listed():
        return [each["pid"] for each in t.members() if each["pid"] not in launched]

    # It has found its entry before the coordinator has heard of it, perhaps. Who spoils his entry by then is never a member; who does it
    # behind `known` may be lost from the list, which is not asked again.
    hostile = t.wait_until(listed, "the hostile member to be listed", 10)
    with open(known, "w"):
        pass
    check(len(hostile) == 1, f"the hostile member is listed once: {hostile}")

    taken, refused, number, until = 0, {}, 0, time.monotonic() + seconds
    while time.monotonic() < until:
        # Who has spoilt its own entry is a stranger, beside whom a checkpoint is refused unless strangers are left out.
        number += 1
        code, out, err = t.command("checkpoint", *(["--without-strangers"] if number % 2 else []), timeout=120)
        check(code in (0, 1, 3, 6), f"a checkpoint beside a hostile member ended with {code}: {err or out}")
        if code == 0:
            taken += 1
        else:
            if code not in refused:
                t.say(err.strip())
            refused[code] = refused.get(code, 0) + 1
        code, out, err = t.command("list", "--json", timeout=60)
        check(code == 0, f"list: {code} {err}")
        check(all(ord(letter) >= 32 or letter == "\n" for letter in out), "control characters in a list")
        group.all_tick("beside a hostile member")
        check(all((processes.stat(pid) or "ZZ")[1] not in "ZX" for pid in outside), "somebody outside has gone")
        check(t.coordinator_pid() == coordinator, "the coordinator has gone")
    t.say(f"{taken} checkpoints, not taken by exit code: {refused}")
    check(taken > 0, "no checkpoint was taken beside the hostile member")
    t.wait_until(lambda: " end" in open(results).read(), "the hostile member to come to its end", 60)
    text = open(results).read()
    check("BREACH" not in text, text)
    listed = {each["real"] for each in t.members()}
    check(not listed & set(outside + [coordinator]), f"an outsider is a member: {listed}")

    # Without it, all is as it was: its garbage stays.
    os.kill(hostile[0], signal.SIGKILL)
    t.wait_until(lambda: hostile[0] not in {each["pid"] for each in t.members()}, "the hostile member to be gone", 30)
    group.checkpoint_works("behind a hostile member")
    code, out, err = t.command("kill", timeout=60)
    check(code == 0, f"kill: {code} {err}")
    check(all((processes.stat(pid) or "ZZ")[1] not in "ZX" for pid in outside), "kill has hit somebody outside")
    t.pull_the_plug()
    t.restart()
    group.all_tick("after a restart")
    tried = text.count("held:") + int(text.split("claims ")[1].split(",")[0])
    t.say(f"attacks: {tried} tried, {tried} held")
