# Traces for others to show: Perfetto's JSON, ShiViz's log, OTF2 there and back; and a part of a trace as a picture.
t="$WORK/t.jsonl"
python3 - >"$t" <<'END'
print('{"cairn-trace": 1, "processes": 3}')
for i in range(200):
    for p in range(3):
        print(f'{{"p": {p}, "e": "send", "to": {(p + 1) % 3}, "tag": 1, "time": {1000 * i + p}, "call": "MPI_Send", "at": "step@ring.c:10"}}')
    for p in range(3):
        print(f'{{"p": {p}, "e": "receive", "from": {(p - 1) % 3}, "tag": 1, "time": {1000 * i + 500 + p}, "took": 300, "call": "MPI_Recv", "at": "step@ring.c:12"}}')
END
exits 0 cairn causality convert --to perfetto "$t" "$WORK/p.json"
exits 0 cairn causality convert --to shiviz "$t" "$WORK/s.log"
exits 0 python3 - "$WORK/p.json" "$WORK/s.log" <<'END'
import json, re, sys
events = json.load(open(sys.argv[1]))["traceEvents"]
slices = [each for each in events if each["ph"] == "X"]
assert len(slices) == 1200 and {each["tid"] for each in slices} == {0, 1, 2}, len(slices)
assert all(each["dur"] == (0.3 if each["name"] == "MPI_Recv" else 0) for each in slices)
assert slices[0]["name"] == "MPI_Send" and slices[0]["args"]["at"] == "MPI_Send at ring.c:10 (step)", slices[0]
starts = {each["id"]: each["ts"] for each in events if each["ph"] == "s"}
ends = {each["id"]: each["ts"] for each in events if each["ph"] == "f"}
assert len(starts) == 600 and starts.keys() == ends.keys() and all(starts[i] < ends[i] for i in starts)
seen = {}
found = re.findall(r"(?P<host>\S*) (?P<clock>{.*})\n(?P<event>.*)", open(sys.argv[2]).read())
assert len(found) == 1200
for host, clock, event in found:
    clock = json.loads(clock)
    assert clock[host] == seen.get(host, 0) + 1, (host, clock)
    seen[host] = clock[host]
    assert all(clock.get(other, 0) <= count for other, count in seen.items()), "an effect comes before its cause"
END
exits 2 cairn causality convert --to otf3 "$t" "$WORK/x"
says "otf2, perfetto or shiviz, not 'otf3'" "$err"
if cairn causality convert --to otf2 "$t" "$WORK/o" 2>"$WORK/why"; then
    exits 0 cairn causality check "$WORK/o/traces.otf2"
    says '3 processes, 1200 events: 600 sends, 600 receives' "$out"
    exits 0 cairn causality convert "$t" "$WORK/again.jsonl"
    same "$(cairn causality convert "$WORK/o" - | sort)" "$(sort "$WORK/again.jsonl")"
    exits 1 cairn causality convert --to otf2 "$t" "$WORK/o"
    says 'is there already' "$err"
else
    says 'built without OTF2' "$(<"$WORK/why")"
fi
# Of a large trace a part is drawn, with the numbers of the whole.
exits 0 cairn causality view --events 100 --around 1:300 "$t" "$WORK/part.html"
says 'drawn are 100 of 1200 events, those around 1:300' "$out"
exits 0 grep -q '"base":\[2[5-9][0-9],2[5-9][0-9],2[5-9][0-9]\]' "$WORK/part.html"
exits 0 cairn causality view --events 100 "$t" "$WORK/first.html"
exits 0 grep -q '"base":\[0,0,0\]' "$WORK/first.html"
exits 2 cairn causality view --around 1:400 --events 10 "$t" "$WORK/none.html"
# Places are said where neither lines nor times are known.
printf '%s\n' '{"cairn-trace":1,"processes":2}' '{"p":0,"e":"send","to":1}' '{"p":1,"e":"receive","from":0}' '{"p":0,"e":"collective","shape":"all"}' \
    '{"p":1,"e":"collective","shape":"all"}' '{"p":0,"e":"send","to":1}' '{"p":1,"e":"receive","from":0}' >"$WORK/places.jsonl"
exits 0 cairn causality places "$WORK/places.jsonl"
says 'a place: 1,1' "$out"
says 'a place: 2,2' "$out"
hasnt=$(grep -c 'no place but' <<<"$out")
same "$hasnt" 0
