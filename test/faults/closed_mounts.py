"""A mount namespace that has what the machine had mounted where its maker can't get to (other users' /run/user/UID), and a stick, where they were
and below a folder that it has mounted elsewhere with all that is in it: it comes back while they are there, and when they have been unmounted,
without them."""
# ci: exact user
# root: mounts what an ordinary user can't get to
import os
import tempfile
from cairn_test import Skip, check, modes

NEEDS = ["/usr/bin/unshare"]

# As root, in a mount namespace of the test's own: what a run that fails leaves there goes with it. Nobody below the test is left when it pulls the
# plug, so who unmounts isn't. Of the file system of /dev/shm another mount can be seen.
MOUNT = r"""
set -e
cd "$1"
chmod 0755 .
mkdir -p closed/memory closed/shm stick
mkdir -m 0777 orders
mount -t tmpfs mine closed/memory
mount --bind /dev/shm closed/shm
mount -t tmpfs -o mode=0755 stick stick
echo of the stick > stick/file
chmod 0700 closed
setsid -f timeout 300 bash -c 'until [[ -e orders/unmount ]]; do sleep 0.1; done; umount closed/memory closed/shm stick; rmdir stick; touch orders/done; sleep 20; rm -r "$PWD"' > /dev/null 2>&1 < /dev/null
cd /
shift
exec "$@"
"""
OWN = "CAIRN_TEST_MOUNTS"
if os.getuid() == 0 and OWN not in os.environ:
    os.environ[OWN] = tempfile.mkdtemp(prefix="cairn-mounts-")
    os.execvp("unshare", ["unshare", "--mount", "bash", "-c", MOUNT, "bash", os.environ[OWN], *modes.own_command()])

PROGRAM = r"""
number=0
mkdir jail
mount --rbind "$1" jail
echo READY
while read -r word; do
    number=$((number + 1))
    echo "$word $number: $(grep -cE " ($1|$PWD/jail)/(stick|closed/memory) " /proc/self/mountinfo) $(cat $1/stick/file jail/stick/file 2>/dev/null | tr '\n' ,)."
done
"""


def test(t):
    folder = os.environ.get(OWN)
    if not folder:
        raise Skip("only root mounts what an ordinary user can't get to")
    program = t.launch(["unshare", "-rm", "bash", "-c", PROGRAM, "bash", folder])
    program.expect("READY")
    t.wait_members(1)
    program, _ = t.cycle(program, 0)
    program.send("there\n")
    program.expect("there 1: 4 of the stick,of the stick,[.]")
    t.checkpoint()
    t.pull_the_plug()
    with open(f"{folder}/orders/unmount", "w"):
        pass
    t.wait_until(lambda: os.path.exists(f"{folder}/orders/done"), "the unmounting")
    program = t.restart()
    program.send("gone\n")
    program.expect("gone 2: 0 [.]")
    code, out, err = t.command("checkpoint")
    check(code == 0, out + err)
