# What people do in their first minutes: a checkpoint right behind a launch, a second launch, a folder that can't be, a stopped program.
begun() { [[ $(cairn status --session "$1" --json | tr -d ' ') =~ \"state\":\"(restarting|running)\" ]]; }
for round in 1 2 3; do
    cairn launch --session "s$round" --ckptdir "$WORK/ckpt" sleep 1000 &
    exits 0 cairn checkpoint --session "s$round"
    says "1 process" "$out"
    says "$WORK/ckpt/" "$out"
    # And behind a restart that has begun: the programs may go on already, and it hasn't said so yet.
    exits 0 cairn checkpoint --session "s$round" --kill
    cairn restart --session "s$round" --ids virtual "${out%%$'\n'*}" 2>/dev/null &
    soon begun "s$round"
    exits 0 cairn checkpoint --session "s$round"
    exits 0 cairn quit --session "s$round"
    kill -9 "$!"
    wait "$!"
done

exits 2 cairn launch --ckptdir "$WORK/.out/x" true
says "no checkpoint can be written to $WORK/.out/x: $WORK/.out" "$err"

cairn launch --ckptdir "$WORK/ckpt" sleep 1000 &
sleeper=$!
cairn_lists() { cairn list | grep -q "$1.*sleep 1000"; }
soon cairn_lists running
kill -STOP "$sleeper"
soon cairn_lists stopped
kill -CONT "$sleeper"
soon cairn_lists running

# A second program belongs to the first one, and may take its folder away: that is said.
exits 0 cairn launch true
same "$err" ""
exits 0 cairn launch --ckptdir "$WORK/other" true
says "checkpoints of 1 process of session default go to $WORK/other from now on, no more to $WORK/ckpt" "$err"
exits 0 cairn launch --ckptdir "$WORK/other" true
same "$err" ""
exits 0 script -qec "cairn launch true" /dev/null
says "it belongs to 1 process of session default from now on" "$out"

exits 0 cairn kill
exits 3 cairn checkpoint
says "no program runs in session default" "$err"
exits 5 cairn checkpoint --session nobody
