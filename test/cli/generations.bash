# Generations as a whole: which are whole, which go by number, age or damage, and that what is left can be restarted.
cat >program.py <<'PROGRAM'
import os, time
memory = bytearray(os.urandom(4 << 20))
number = 0
open("started", "w").close()
while True:
    memory[(number % 50) * 4096] ^= 1
    number += 1
    open("count", "w").write(str(number))
    time.sleep(0.02)
PROGRAM
exits 1 cairn verify "$WORK"
says "holds no complete checkpoint" "$err"
exits 2 cairn prune "$WORK"
says "prune what?" "$err"
exits 2 cairn prune --keep 0 "$WORK"
exits 2 cairn prune --older soon "$WORK"
says "a number and s, m, h, d or w" "$err"
exits 2 cairn prune --damaged --keep 1 "$WORK"
export CAIRN_CKPTDIR=$WORK/ckpt
cairn launch --keep 0 /usr/bin/python3 program.py &
soon test -e started
for number in 1 2 3 4 5; do
    exits 0 cairn checkpoint
    folder=$(head -n 1 <<<"$out")
done
computation=$(dirname "$folder")
exits 0 cairn verify
says "all of 5 generations are whole" "$out"
exits 0 cairn prune --older 1h
says "0 generations removed" "$out"
exits 0 cairn prune --keep 3 --dry-run
says "would remove $computation/2" "$out"
holds test -d "$computation/1"
exits 0 cairn prune --keep 3
says "2 generations removed" "$out"
holds test ! -e "$computation/1"
# A page of the newest image: the other generations don't need it.
exits 0 cairn kill
wait
image=$(ls "$folder"/p*.image)
size=$(stat -c %s "$image")
printf 'x' | dd of="$image" bs=1 seek=$((size > 20000 ? 8192 : size / 2)) conv=notrunc status=none
exits 4 cairn verify --json "$WORK/ckpt"
holds python3 -c 'import json, sys; all = json.loads(sys.argv[1]); assert [each["whole"] for each in all["generations"]] == [True, True, False] and all["newest_whole"].endswith("/4")' "$out"
exits 4 cairn verify "$WORK/ckpt"
says "1 of 3 generations damaged; the newest whole one is $computation/4" "$out"
says "$image" "$out"
exits 0 cairn prune --damaged "$WORK/ckpt"
says "removed $folder" "$out"
holds test "$(readlink -f "$WORK/ckpt/latest")" = "$computation/4"
exits 0 cairn verify "$WORK/ckpt"
rm count
"$WORK/ckpt/restart.sh" >"$WORK/restart.out" 2>&1 &
soon test -s count
exits 0 cairn kill
wait
# One file of it, compressed or not, that goes on elsewhere.
exits 0 cairn export "$WORK/job.tar.zst" "$WORK/ckpt"
says "brings it back" "$out"
holds test ! -e "$WORK/job.tar.zst.partial"
exits 0 cairn export "$WORK/job.tar" "$WORK/ckpt"
exits 0 tar tf "$WORK/job.tar"
says "/manifest.json" "$out"
rm -rf "$WORK/ckpt" count
export CAIRN_CKPTDIR=$WORK/elsewhere
cairn restart "$WORK/job.tar.zst" >"$WORK/restart.out" 2>&1 &
soon test -s count
exits 0 cairn verify
says "all of 1 generation is whole" "$out"
exits 0 cairn checkpoint
exits 0 cairn kill
wait
exits 0 cairn import "$WORK/job.tar"
says "$WORK/elsewhere/" "$out"
exits 0 cairn import "$WORK/job.tar" "$WORK/third"
head -c 20000 "$WORK/job.tar" >"$WORK/cut.tar"
exits 4 cairn import "$WORK/cut.tar" "$WORK/fourth"
exits 4 cairn restart "$WORK/program.py"
says "is no checkpoint's folder" "$err"
holds test -z "$(ls -A "$WORK/fourth")"
# What isn't cairn's is taken from no archive.
mkdir -p bad/1234/1 && ln -s /etc/passwd bad/1234/1/manifest.json && tar cf "$WORK/bad.tar" -C bad 1234
exits 4 cairn import "$WORK/bad.tar" "$WORK/fourth"
says "is no archive of" "$err"
exits 0 cairn quit
