# What the kernel shows of programs before a checkpoint and after a restart, for a user who wants to know whether it was exact.
echo data >data
cairn launch --ckptdir "$WORK/ckpt" sleep 1000 7<data &
cairn_lists() { cairn list | grep -q "sleep 1000"; }
soon cairn_lists
exits 0 cairn checkpoint --kill
wait "$!"
exits 3 cairn restart --verify "$WORK/ckpt"
says "nobody has looked at the programs before this checkpoint; \`cairn checkpoint --witness\` does" "$err"

cairn launch --ckptdir "$WORK/ckpt" sleep 1000 7<data &
exits 0 cairn checkpoint --witness --kill
wait "$!"

verified() { grep -qs "$1" "$WORK/said"; }
for ids in exact virtual; do
    [[ $ids = exact && $(id -u) != 0 ]] && continue
    rm -f "$WORK/said"
    cairn restart --verify --ids "$ids" "$WORK/ckpt" 2>"$WORK/said" &
    soon verified "cairn: verified: all that the kernel shows of the programs is as it was before the checkpoint"
    exits 0 cairn kill
    wait "$!"
done

# Another file in the place of one that was open is a difference.
rm "$WORK/said"
cairn restart --verify --path-map "$WORK/data=/dev/null" "$WORK/ckpt" 2>"$WORK/said" &
soon verified "things that the kernel shows of the programs are not as before the checkpoint"
soon verified "/fd/7/leads to: $WORK/data -> /dev/null"
exits 0 cairn kill
wait "$!"
exits 0 cairn witness --rules
exits 2 cairn witness
