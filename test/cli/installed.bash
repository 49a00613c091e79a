# cmake --install under a prefix: works from there, also after the tree was moved as a whole.
exits 0 cmake --install "$CAIRN_BUILD" --prefix "$WORK/one"
for file in bin/cairn libexec/cairn/cairn-control libexec/cairn/cairn-coordinator libexec/cairn/cairn-capture \
    libexec/cairn/cairn-restart libexec/cairn/cairn-inspect libexec/cairn/cairn-stacks libexec/cairn/cairn-top libexec/cairn/cairn-generations libexec/cairn/cairn-doctor libexec/cairn/cairn-slurm libexec/cairn/cairn-service share/man/man1/cairn.1 \
    share/bash-completion/completions/cairn share/zsh/site-functions/_cairn lib/systemd/system/cairn@.service lib/systemd/user/cairn@.service; do
    holds test -e "one/$file"
done
# Units name the cairn that they are installed with.
for manager in system user; do
    says "ExecStart=$WORK/one/bin/cairn service run --$manager %i" "$(<"one/lib/systemd/$manager/cairn@.service")"
done
# Nothing but cairn in PATH's folder.
same "$(ls one/bin)" cairn
mv one two
clean=(env -i "CAIRN_RUNDIR=$CAIRN_RUNDIR" PATH=/usr/bin:/bin)
exits 0 "${clean[@]}" "$WORK/two/bin/cairn" launch true
exits 0 "${clean[@]}" "$WORK/two/bin/cairn" launch sh -c 'echo "$CAIRN_LIBRARY"'
says "$WORK/two/lib" "$out"
exits 0 "${clean[@]}" "$WORK/two/bin/cairn" status
# Through a link, as /usr/local/bin often is.
ln -s "$WORK/two/bin/cairn" link
exits 0 "${clean[@]}" ./link status
pid=$(<"$CAIRN_RUNDIR/default/coordinator.pid")
says "$WORK/two/libexec/cairn/cairn-coordinator" "$(readlink "/proc/$pid/exe")"
exits 0 "${clean[@]}" "$WORK/two/bin/cairn" quit

# A checkpoint and its restart with the installed programs only.
"${clean[@]}" "$WORK/two/bin/cairn" launch --ckptdir "$WORK/ckpt" bash -c 'for i in {1..600}; do echo $i >> ticks; sleep 0.05; done' &
job=$!
soon test -s ticks
exits 0 "${clean[@]}" "$WORK/two/bin/cairn" checkpoint --kill
says "$WORK/ckpt" "$out"
wait "$job"
# It is the installed one that the script restarts with.
says "$WORK/two/bin/cairn" "$(<ckpt/restart.sh)"
# What it did between the checkpoint and its end it does once more.
before=$(sort -n ticks | tail -1)
"${clean[@]}" ckpt/restart.sh >restart.out 2>&1 &
more() { [[ $(sort -n ticks | tail -1) -gt $((before + 3)) ]]; }
soon more || cat restart.out >&2
exits 0 "${clean[@]}" "$WORK/two/bin/cairn" kill
same "$(sort -nu ticks | wc -l)" "$(sort -n ticks | tail -1)"
wait
