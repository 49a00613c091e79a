# launch becomes the program: everything that the program can see of itself is as without it.
exits 0 cairn launch true
exits 7 cairn launch sh -c 'exit 7'
exits 143 bash -c 'cairn launch sh -c "kill -TERM \$\$"'
exits 0 cairn launch echo 'a b' '' "c'd"
same "$out" "a b  c'd"
exits 0 cairn launch -- echo -- --session x
same "$out" "-- --session x"
exits 0 cairn launch echo --session x
same "$out" "--session x"

cairn launch sh -c 'echo $$' >pid &
pid=$!
wait "$pid"
same "$(<pid)" "$pid"

# State of the process: descriptors, signals, limits, ids, mask. The program is a shell, which changes none of it.
cat >look <<'END'
for fd in /proc/$$/fd/*; do echo "${fd##*/}"; done # a glob: a pipe would be a descriptor more, for a moment
while read -r name value; do # no child: while it is made the shell blocks signals
    case $name in
    SigQ:) ;;
    Sig* | Shd* | Groups: | Uid: | Gid: | Umask: | Cap* | NoNewPrivs: | Seccomp:) echo "$name $value" ;;
    esac
done </proc/$$/status
cat /proc/$$/limits /proc/$$/oom_score_adj
END
for how in '' 'trap "" HUP USR1 PIPE;' 'exec 9</dev/null 7>/dev/null;' 'umask 077; ulimit -S -n 50;' 'exec <&-;'; do
    plain=$(bash -c "$how exec dash look" </dev/null 2>&1)
    launched=$(bash -c "$how exec cairn launch dash look" </dev/null 2>&1)
    # Two shells that can't read the script are alike, too.
    for line in "SigIgn: " "Umask: " "Max open files"; do says "$line" "$plain"; done
    checks=$((checks + 1))
    [[ $launched == "$plain" ]] || wrong "$how"$'\n'"$(diff <(echo "$plain") <(echo "$launched"))"
done

# Environment.
exits 0 cairn launch sh -c 'echo "$LD_PRELOAD"; test -e "$CAIRN_REGION" && test -e "$CAIRN_LIBRARY" && echo there'
says "/libcairn.so" "${out%%$'\n'*}"
says there "$out"
exits 0 env LD_PRELOAD=libm.so.6 "$CAIRN_BUILD/bin/cairn" launch sh -c 'echo "$LD_PRELOAD"'
says "libcairn.so:libm.so.6" "$out"

# A script without #! is a shell's.
printf 'echo "script $1"\n' >plain
chmod +x plain
exits 0 cairn launch ./plain x
same "$out" "script x"
exits 0 env PATH="$WORK:$PATH" cairn launch plain y
same "$out" "script y"

# Sessions and settings: options are stronger than the environment.
export CAIRN_SESSION=other
exits 0 cairn launch true
exits 0 cairn launch --session third --ckptdir some/where --interval 1000.5 true
unset CAIRN_SESSION
for session in default other third; do exits 0 cairn status --session "$session"; done
exits 0 cairn status --session third --json
same "$(field ckptdir "$out")" "$WORK/some/where"
same "$(field interval "$out")" 1000.5
exits 0 env CAIRN_CKPTDIR=/tmp CAIRN_INTERVAL=7 cairn launch --session third --interval 0 true
exits 0 cairn status --session third --json
same "$(field ckptdir "$out")" /tmp
same "$(field interval "$out")" 0.0

# A session's name that is no name; a folder that can't be made.
exits 1 cairn launch --session a/b true
says "letters, digits" "$err"
exits 1 env CAIRN_RUNDIR=/proc/nothing cairn launch true
says "/proc/nothing" "$err"
