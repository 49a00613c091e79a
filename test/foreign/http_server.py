"""python3 -m http.server and curl, both inside: each file arrives whole."""
# ci: user
import hashlib
import os
import shutil
from cairn_test import Skip, check

SCRIPT = r"""
/usr/bin/python3 -m http.server --bind 127.0.0.1 --directory served $PORT > server.log 2>&1 &
server=$!
until curl -s -o /dev/null http://127.0.0.1:$PORT/; do sleep 0.05; done
echo READY
i=0
until [[ $i -ge $COUNT && -e enough ]]; do
    sum=$(curl -s --fail --limit-rate 30M http://127.0.0.1:$PORT/file$((i % 4)) | sha256sum) || echo "FAILED curl $i"
    echo "${sum%% *}" >> sums
    i=$((i + 1))
done
kill $server
echo DONE
"""


def test(t):
    if not shutil.which("curl"):
        raise Skip("curl isn't installed")
    served = os.path.join(t.work, "served")
    os.mkdir(served)
    sums = []
    for number in range(4):
        data = hashlib.shake_256(str(number).encode()).digest(200000) * (1 + 8 * number)
        with open(os.path.join(served, f"file{number}"), "wb") as file:
            file.write(data)
        sums.append(hashlib.sha256(data).hexdigest())
    count = 400 if t.soak else 60
    program = t.launch(["bash", "-c", SCRIPT], env={"PORT": str(t.random.randrange(20000, 30000)), "COUNT": str(count)})
    program.expect("READY")
    for number in range(t.rounds):
        t.sleep(0.2 + 0.4 * t.random.random())
        # The sums are appended to a file that is opened anew each time: what is done after the checkpoint stays done.
        program, _ = t.cycle(program, number, at_once=True)
    # However fast the machine is: the transfers last until the last restart.
    open(os.path.join(t.work, "enough"), "w").close()
    program.expect("DONE", timeout=120)
    program.expect_exit(0)
    with open(os.path.join(t.work, "sums")) as file:
        found = file.read().split()
    wrong = [number for number, one in enumerate(found) if one != sums[number % 4]]
    check(not wrong and len(found) >= count, f"{len(found)} files of {count} or more, wrong: {wrong[:10]}")
