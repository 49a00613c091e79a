# list, status, interval, kill, quit.
cairn launch --ckptdir "$WORK/ckpt" sleep 1000 &
sleeper=$!
cairn_lists() { cairn list | grep -q "sleep 1000"; }
soon cairn_lists
exits 0 cairn list
says PID "$out"
says "$sleeper" "$out"
exits 0 cairn list --json
same "$(python3 -c 'import json,sys; p=json.loads(sys.argv[1]); print(len(p), p[0]["pid"], p[0]["memory"] > 0)' "$out")" \
    "1 $sleeper True"
exits 0 cairn status
says "$WORK/ckpt" "$out"
exits 0 cairn status --json
same "$(field processes "$out")" 1
same "$(field session "$out")" default

exits 0 cairn interval 3600
says "1 h 0 min" "$out"
exits 0 cairn interval 0 --json
same "$(field interval "$out")" 0.0

# Another session sees nothing of it.
exits 5 cairn list --session other

exits 1 sh -c 'cairn list > /dev/full'

# The coordinator may go: the program stays, and the next one finds it.
exits 0 cairn quit
says "1 process goes on" "$out"
exits 5 cairn status
holds kill -0 "$sleeper"
exits 0 cairn launch true
soon cairn_lists

exits 0 cairn kill --json
same "$(field killed "$out")" 1
wait "$sleeper"
same $? 137
exits 0 cairn list
says "no processes" "$out"
exits 0 cairn list --json
same "$out" "[]"
exits 0 cairn quit
same "$out" "coordinator ended"

# Who is told that the coordinator has ended may remove the session's folder and begin anew in it at once:
# nothing that the old one still does may take the new one's socket and region away.
for round in 1 2 3 4 5 6; do
    cairn launch bash -c 'for i in 1 2 3 4 5 6 7 8; do sleep 1000 & done; wait' 2> "$WORK/sleepers" &
    nine() { [ "$(cairn list | grep -c "sleep 1000")" = 9 ]; }
    soon nine
    exits 0 cairn kill
    exits 0 cairn quit
    holds test ! -e "$CAIRN_RUNDIR/default/socket"
    holds test ! -e "$CAIRN_RUNDIR/default/region"
    rm -rf "$CAIRN_RUNDIR"
done
