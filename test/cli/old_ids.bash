# A restart that wants the old ids says for whom it waits: for a program that has ended and was not waited for, and for one that is still in its session.
[[ $(id -u) = 0 ]] || skip "ids are root's to choose"

# Starts COMMAND, and waits for it only when somebody has made the file `reap`.
cat >parent.py <<'PYTHON'
import os, subprocess, sys, time
child = subprocess.Popen(sys.argv[1:])
while not os.path.exists("reap"):
    time.sleep(0.05)
child.wait()
PYTHON
/usr/bin/python3 parent.py cairn launch --ckptdir "$WORK/ckpt" sleep 1000 &
parent=$!
lists() { cairn list | grep -q "sleep 1000"; }
soon lists
exits 0 cairn checkpoint --kill
cairn restart --ids exact "$WORK/ckpt" 2>"$WORK/said" &
restart=$!
told() { grep -qs "$1" "$WORK/said"; }
soon told "waiting for an id that the computation had: .* has ended, and .*python3.*, its parent now, hasn't waited for it yet"
same "$(grep -c waiting "$WORK/said")" 1
touch reap
wait "$parent"
soon lists
exits 0 cairn kill
wait "$restart"

# It leads a session, in which a program of nobody's stays when it has gone.
setsid cairn launch --ckptdir "$WORK/other" bash -c 'cairn outside sleep 1001 & echo $! >outside; exec sleep 1000' &
launched=$!
soon lists
stays() { grep -qs "sleep" "/proc/$(<outside)/comm"; }
soon stays
exits 0 cairn checkpoint --kill
wait "$launched"
cairn restart --ids exact "$WORK/other" 2>"$WORK/said" &
restart=$!
soon told "waiting for an id that the computation had: .*sleep.* is still in a session or process group of that number"
kill "$(<outside)"
soon lists
exits 0 cairn kill
wait "$restart"
