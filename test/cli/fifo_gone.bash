# A FIFO whose name is gone is made again by a restart: where its folder is there, with the name, the mode and what was in it.
mkfifo -m 0640 "$WORK/fifo"
cat >reader.py <<'PYTHON'
import os, sys, time
both = os.open(sys.argv[1], os.O_RDWR)
os.write(both, b"before\n")
open("ready", "w").close()
while not os.path.exists("go"):
    time.sleep(0.05)
print(os.read(both, 100).decode(), end="", flush=True)
print(os.read(both, 100).decode(), end="", flush=True)
PYTHON
cairn launch --ckptdir "$WORK/ckpt" /usr/bin/python3 reader.py "$WORK/fifo" >"$WORK/out" &
launched=$!
ready() { [[ -e ready ]]; }
soon ready
exits 0 cairn checkpoint --kill
wait "$launched"
rm "$WORK/fifo"
cairn restart "$WORK/ckpt" 2>"$WORK/said" &
restart=$!
made() { [[ -p $WORK/fifo ]]; }
soon made
same "$(stat -c %a "$WORK/fifo")" 640
touch go
read_both() { grep -qs after "$WORK/out"; }
first() { grep -qs before "$WORK/out"; }
soon first
echo after >"$WORK/fifo"
soon read_both
wait "$restart"
same "$(<"$WORK/out")" "$(printf 'before\nafter')"
grep -q "FIFO .*fifo is gone: made anew" "$WORK/said" || fail "the restart doesn't say that it has made the FIFO: $(<"$WORK/said")"
