# Many launches at once, no coordinator before: all succeed, one coordinator is left. Then coordinators that die.
# Pids of the coordinators of our sessions.
serving() {
    local comm
    for comm in $(grep -sl '^cairn-coordinat' /proc/[0-9]*/comm); do
        tr '\0' '\n' 2>/dev/null <"${comm%comm}environ" | grep -qx "CAIRN_RUNDIR=$CAIRN_RUNDIR" && echo "${comm//[^0-9]/}"
    done
}

for round in 1 2 3; do
    pids=()
    for i in {1..12}; do
        cairn launch --session "race$round" true 2>"err$i" &
        pids+=($!)
    done
    for i in {1..12}; do
        checks=$((checks + 1))
        wait "${pids[i - 1]}" || wrong "launch $i of round $round: $(<"err$i")"
    done
done
# The losers end by themselves.
three() { [[ $(serving | wc -l) -eq 3 ]]; }
soon three

# Killed: the next launch starts another one.
holds cairn launch --session again true
pid=$(<"$CAIRN_RUNDIR/again/coordinator.pid")
kill -9 "$pid"
exits 0 cairn launch --session again true
checks=$((checks + 1))
[[ $(<"$CAIRN_RUNDIR/again/coordinator.pid") != "$pid" ]] || wrong "coordinator.pid is the dead one's"

# Stopped: it takes connections and never answers. Said, not waited for for ever.
pid=$(<"$CAIRN_RUNDIR/again/coordinator.pid")
kill -STOP "$pid"
exits 6 cairn launch --session again true
says "no answer for 10 s" "$err"
kill -CONT "$pid"
exits 0 cairn launch --session again true

# It can't be started: its own words are shown.
mkdir -p "$CAIRN_RUNDIR/broken"
chmod 700 "$CAIRN_RUNDIR/broken"
mkdir "$CAIRN_RUNDIR/broken/region"
exits 5 cairn launch --session broken true
says "region" "$err"

# Another one was first, and has ended before anybody could ask it: ours has ended because of it, and a second one is started.
mkdir -p tree/bin && cp "$CAIRN_BUILD/bin/cairn" tree/bin && ln -s "$CAIRN_BUILD/lib" tree/lib
printf '#!/bin/sh\nmkdir "%s" 2>/dev/null && exit 0\nexec "%s" "$@"\n' "$WORK/was_first" "$CAIRN_BUILD/bin/cairn-coordinator" >tree/bin/cairn-coordinator
chmod +x tree/bin/cairn-coordinator
exits 0 tree/bin/cairn launch --session overtaken true
checks=$((checks + 1))
[[ -d $WORK/was_first ]] || wrong "the tree's own coordinator was not started"
