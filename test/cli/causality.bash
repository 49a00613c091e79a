# `cairn causality`: answers, exit codes, both forms, and errors that name the event.
cat >"$WORK/t.jsonl" <<'LINES'
{"cairn-trace":1,"processes":3}
{"p":0,"e":"checkpoint","time":1000}
{"p":1,"e":"checkpoint","time":1100}
{"p":0,"e":"send","to":1,"time":2000,"at":"relax@s.c:10"}
{"p":1,"e":"receive","from":0,"time":3000,"at":"relax@s.c:11"}
{"p":0,"e":"collective","shape":"all","time":4000,"at":"s.c:20"}
{"p":1,"e":"collective","shape":"all","time":4100,"at":"s.c:20"}
{"p":2,"e":"collective","shape":"all","time":4200,"at":"s.c:20"}
{"p":1,"e":"checkpoint","time":5000}
{"p":1,"e":"send","to":2,"tag":5,"time":5100}
{"p":2,"e":"receive","from":1,"tag":5,"time":5200}
{"p":2,"e":"checkpoint","forced":true,"time":6000}
LINES
t=$WORK/t.jsonl
says 'recovery-line' "$(cairn help causality)"
for verb in check cuts places zigzag recovery-line simulate convert view; do
    exits 0 cairn causality "$verb" --help
    says "usage: cairn causality $verb" "$out"
done
exits 0 cairn causality check "$t"
says '3 processes, 11 events: 2 sends, 2 receives, 3 collective, 4 checkpoints; 0 messages in transit' "$out"

exits 0 cairn causality cuts --after 2:1 --before 1:1 --is 2,2,0 "$t"
says 'earliest with 2:1: 2,5,2' "$out"
says 'latest without 1:1: 2,1,0' "$out"
exits 3 cairn causality cuts --is 1,2,0 "$t"
exits 0 cairn causality cuts --most 1000 --json "$t"
same "$(field all_counted "$out")" True

exits 0 cairn causality places "$t"
says 'behind s.c:20: 1 of 1 passes, wait 200 ns on average; first at 3,3,1' "$out"
exits 0 cairn causality places --is 3,3,1 --after 0:1 --before 1:4 "$t"
says '2,2,0' "$out"
exits 3 cairn causality places --is 2,1,0 "$t"
says 'before it is process 0, event 1 (send to 1; s.c:10 (relax)); behind it is process 1, event 1' "$err"

exits 0 cairn causality zigzag "$t"
says 'useless: 1:2' "$out"
exits 0 cairn causality zigzag --from 1:2 --to 2:1 "$t"
says '1:2 zigzags to 2:1, doubled by a causal path' "$out"
exits 3 cairn causality zigzag --extends 1:2 "$t"
exits 0 cairn causality recovery-line --failed 1 --json "$t"
same "$(field line "$out")" '[1, 1, 0]'
exits 0 cairn causality recovery-line --failed 0,2 "$t"

# From one form to the other and back.
exits 0 cairn causality convert "$t" "$WORK/t.bin"
exits 0 cairn causality convert "$WORK/t.bin" "$WORK/again.jsonl"
exits 0 cairn causality convert "$WORK/again.jsonl" --to binary "$WORK/again.bin"
words 12 "$(<"$WORK/again.jsonl")"
same "$(cairn causality convert "$WORK/again.bin" -)" "$(<"$WORK/again.jsonl")"
says '11 events' "$(cairn causality check "$t")"
same "$(cairn causality check "$WORK/t.bin")" "$(cairn causality check "$t")"
same "$(cairn causality check - <"$t")" "$(cairn causality check "$t")"
exits 1 cairn causality convert "$t" "$WORK/t.bin"

exits 0 cairn causality simulate --protocol bcs,fdas --traffic ring --messages 2000 --checkpoint-every 5,10 --svg "$WORK/p.svg"
says '</svg>' "$(<"$WORK/p.svg")"
exits 0 cairn causality simulate --json --messages 500 "$t"
exits 0 cairn causality view --failed 1 "$t" "$WORK/t.html"
says '</html>' "$(tail -c 20 "$WORK/t.html")"
[[ $(<"$WORK/t.html") != *http://* ]] || wrong "the page refers to the network"

# What is wrong is said, with the code for it.
exits 2 cairn causality
exits 2 cairn causality chek "$t"
exits 2 cairn causality check
exits 2 cairn causality cuts --after 9:9 "$t"
exits 2 cairn causality places --is 1,2 "$t"
exits 2 cairn causality zigzag --from 0:0 "$t"
exits 2 cairn causality recovery-line "$t"
exits 2 cairn causality simulate --protocol none
exits 2 cairn causality simulate --processes 1
exits 2 cairn causality simulate --processes 10000 --protocol logging --differences
says 'needs some 40000 GB of memory' "$err"
exits 1 cairn causality check "$WORK/missing"
printf '%s\n' '{"cairn-trace":1,"processes":2}' '{"p":1,"e":"receive","from":0,"at":"a.c:7"}' >"$WORK/bad.jsonl"
exits 4 cairn causality check "$WORK/bad.jsonl"
says 'process 1, event 0 (receive from 0; a.c:7): process 0 never sends this message' "$err"
head -c 200 "$WORK/t.bin" >"$WORK/cut.bin"
exits 0 cairn causality check "$WORK/cut.bin"
says 'was lost in a crash' "$out"
printf 'x' | dd of="$WORK/t.bin" bs=1 seek=100 conv=notrunc 2>/dev/null
exits 4 cairn causality check "$WORK/t.bin"
