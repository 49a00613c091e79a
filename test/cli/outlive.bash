# A coordinator that launch started has nothing of the launched program's: terminal, session, descriptors, signals.
exec 9>"$WORK/held"
mkfifo pipe
exits 0 timeout 20 bash -c 'cairn launch echo through | cat'
same "$out" through
pid=$(<"$CAIRN_RUNDIR/default/coordinator.pid")
exits 0 cairn quit

# Under nohup, with signals ignored and LD_PRELOAD set.
before=$pid
LD_PRELOAD=libm.so.6 bash -c 'trap "" HUP TERM USR1; cairn launch true'
pid=$(<"$CAIRN_RUNDIR/default/coordinator.pid")
holds kill -0 "$pid"
holds test "$pid" != "$before"
read -r _ _ _ _ group session _ < <(sed 's/(.*)/x/' "/proc/$pid/stat" | awk '{print $1,$2,$3,$4,$5,$6}')
words 1 "$session"
checks=$((checks + 1))
[[ $session != "$(ps -o sid= -p $$ | tr -d ' ')" ]] || wrong "the coordinator is in our session"
same "$(readlink "/proc/$pid/fd/0")" /dev/null
words 5 "$(ls "/proc/$pid/fd")"
same "$(readlink "/proc/$$/fd/9")" "$WORK/held"
checks=$((checks + 1))
for fd in "/proc/$pid/fd/"*; do
    [[ $(readlink "$fd") != "$WORK/held" ]] || wrong "the coordinator holds a descriptor of ours"
done
# SIGHUP (1), SIGUSR1 (10) and SIGTERM (15) aren't ignored.
says SigIgn: "$(<"/proc/$pid/status")"
ignored=$((16#0$(sed -n 's/^SigIgn:\t//p' "/proc/$pid/status")))
same $((ignored & (1 << 0 | 1 << 9 | 1 << 14))) 0
holds grep -q cairn-coordinator "/proc/$pid/maps"
checks=$((checks + 1))
grep -q libcairn "/proc/$pid/maps" && wrong "libcairn.so is in the coordinator"
exec 9>&-
