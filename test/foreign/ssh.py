"""sshd and its clients inside: a session that counts, one with a terminal, a file that is copied; as root one of another user's,
whose programs run as somebody who can't look into root's session."""
# ci: none (its packages are heavy: where they are installed)
import hashlib
import os
import shutil
from cairn_test import Skip, check

SERVER = """
Port {port}
ListenAddress 127.0.0.1
HostKey {work}/host
PidFile {work}/sshd.pid
AuthorizedKeysFile {work}/key.pub
StrictModes no
UsePAM no
PasswordAuthentication no
PermitRootLogin yes
X11Forwarding no
PrintMotd no
PrintLastLog no
"""
CLIENT = """
Host there
  HostName 127.0.0.1
  Port {port}
  IdentityFile {work}/key
  UserKnownHostsFile {work}/known
  StrictHostKeyChecking no
  BatchMode yes
  LogLevel ERROR
"""
SCRIPT = r"""
/usr/sbin/sshd -D -f $PWD/server -E $PWD/sshd.log & server=$!
ssh="ssh -F $PWD/client there"
until $ssh true 2> /dev/null; do sleep 0.1; done
$ssh 'for ((i = 0; i < 300; ++i)); do echo $i; sleep 0.02; done; exit 7' > counted < /dev/null & counts=$!
$ssh 'cat | sha256sum' < <(for i in 1 2 3 4 5 6 7 8; do cat data; sleep 0.5; done) > summed & sums=$!
others=
[ -n "$OTHER" ] && { $ssh -l $OTHER 'id -un; for ((i = 0; i < 150; ++i)); do /bin/echo $i; sleep 0.02; done; exit 6' > others < /dev/null & others=$!; }
$ssh $PSEUDO 'echo TERMINAL; while read line; do [ "$line" = end ] && break; echo "got $line"; done; exit 5'; echo "TERMINAL $?"
wait $counts; echo "COUNTS $?"
wait $sums; echo "SUMS $?"
[ -n "$OTHER" ] && { wait $others; echo "OTHERS $?"; }
kill $server; wait $server; echo "SERVER $?"
"""


def test(t):
    if not os.path.exists("/usr/sbin/sshd") or not shutil.which("ssh"):
        raise Skip("sshd or ssh isn't installed")
    if t.mode == "userns":
        raise Skip("sshd as root wants other users as well, which this namespace hasn't got")
    port = t.random.randrange(20000, 30000)
    for name in ("host", "key"):
        code, out, err = t.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", name])
        check(code == 0, f"ssh-keygen: {out}{err}")
    for name, text in (("server", SERVER), ("client", CLIENT)):
        with open(os.path.join(t.work, name), "w") as file:
            file.write(text.format(port=port, work=t.work))
    data = hashlib.shake_256(b"data").digest(3000000)
    with open(os.path.join(t.work, "data"), "wb") as file:
        file.write(data)
    other = ""
    if os.getuid() == 0:
        other = t.own_by_user()  # sshd reads his key as himself
        # "!", as useradd leaves it, is a locked account to sshd; "*" is one without a password.
        code, out, err = t.run(["usermod", "--password", "*", other])
        check(code == 0, f"usermod: {out}{err}")
        os.makedirs("/run/sshd", mode=0o755, exist_ok=True)
    # Terminals are made by root only: login records have to be written.
    program = t.launch(["bash", "-c", SCRIPT], env={"PSEUDO": "-tt" if other else "-T", "OTHER": other})
    program.expect(r"TERMINAL\r?\n", timeout=60)
    for number in range(t.rounds):
        t.sleep(0.3 + 0.5 * t.random.random())
        program, _ = t.cycle(program, number)
        program.send(f"line {number}\n")
        program.expect(rf"got line {number}\r?\n")
    program.send("end\n")
    program.expect(r"TERMINAL 5\r?\n")
    program.expect(r"COUNTS 7\r?\n", timeout=60)
    program.expect(r"SUMS 0\r?\n", timeout=60)
    if other:
        program.expect(r"OTHERS 6\r?\n", timeout=60)
    program.expect(r"SERVER (0|255|143)\r?\n")
    program.expect_exit(0)
    with open(os.path.join(t.work, "counted")) as file:
        check(file.read() == "".join(f"{number}\n" for number in range(300)), "not everything was counted, or twice")
    if other:
        with open(os.path.join(t.work, "others")) as file:
            check(file.read() == f"{other}\n" + "".join(f"{number}\n" for number in range(150)), "the other user's session lost something")
    with open(os.path.join(t.work, "summed")) as file:
        check(file.read().split()[:1] == [hashlib.sha256(data * 8).hexdigest()], "what was copied has changed on its way")
