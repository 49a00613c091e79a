# What differs between two checkpoints of a program that has opened a file and taken memory meanwhile, and that nothing does between two of one that stood still.
cat >program.py <<'PROGRAM'
import os, time
open("started", "w").close()
while not os.path.exists("go"): time.sleep(0.05)
kept, opened = bytearray(64 << 20), open("opened")
child = os.spawnlp(os.P_NOWAIT, "sleep", "sleep", "1000")
open("done", "w").close()
time.sleep(1000)
PROGRAM
echo >opened
cairn launch --ckptdir "$WORK/ckpt" /usr/bin/python3 program.py &
soon test -e started
exits 0 cairn checkpoint
older=$(head -n 1 <<<"$out")
touch go
soon test -e done
exits 0 cairn checkpoint
newer=$(head -n 1 <<<"$out")
exits 1 cairn inspect --diff "$older" "$newer"
says "generation 1 -> generation 2" "$out"
says "$WORK/opened" "$out"
says "+ process" "$out"
says "(sleep)" "$out"
says "+ memory at" "$out"
says "MiB rw- anonymous" "$out"
exits 1 cairn inspect --diff --json "$older" "$newer"
holds python3 -c 'import json, sys; assert any("after" in each for each in json.loads(sys.argv[1]))' "$out"
exits 0 cairn inspect --diff "$newer" "$newer"
says "nothing differs" "$out"
exits 2 cairn inspect --diff "$older"
says "--diff wants two checkpoints" "$err"
exits 2 cairn inspect "$older" "$newer"
exits 0 cairn kill
