# A trace that is larger than the memory there is: 5 million events, 25 MB, with 8 MiB for all that isn't mapped.
python3 - >"$WORK/ring.jsonl" <<'END'
import sys
n = 64
sends = [f'{{"p": {p}, "e": "send", "to": {(p + 1) % n}, "tag": 1, "at": "step@ring.c:10"}}\n' for p in range(n)]
receives = [f'{{"p": {p}, "e": "receive", "from": {(p - 1) % n}, "tag": 1, "at": "step@ring.c:12"}}\n' for p in range(n)]
sys.stdout.write('{"cairn-trace": 1, "processes": %d}\n' % n)
for i in range(40000):
    sys.stdout.writelines(sends + receives)
END
exits 0 cairn causality convert "$WORK/ring.jsonl" "$WORK/ring.trace"
limit=$((8 << 20))
holds test "$(stat -c %s "$WORK/ring.trace")" -gt $((3 * limit))
exits 0 prlimit --data=$limit cairn causality check "$WORK/ring.trace"
says '64 processes, 5120000 events: 2560000 sends, 2560000 receives' "$out"
