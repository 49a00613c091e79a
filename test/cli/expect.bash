# What the scripts here expect. Every failed expectation is told; finish sets the exit status.
failures=0
checks=0

wrong() {
    failures=$((failures + 1))
    echo "WRONG (line ${BASH_LINENO[1]}): $*" >&2
}

# run COMMAND...: sets status, out, err.
run() {
    "$@" >"$WORK/.out" 2>"$WORK/.err" </dev/null
    status=$?
    out=$(<"$WORK/.out") err=$(<"$WORK/.err")
}

# exits N COMMAND...
exits() {
    local want=$1
    shift
    checks=$((checks + 1))
    run "$@"
    [[ $status -eq $want ]] || wrong "exit status $status, not $want: $*"$'\n'"$out"$'\n'"$err"
}

# says PATTERN TEXT: the text has the pattern (of ==) in it.
says() {
    checks=$((checks + 1))
    [[ $2 == *$1* ]] || wrong "no '$1' in: $2"
}

same() {
    checks=$((checks + 1))
    [[ $1 == "$2" ]] || wrong "'$1' is not '$2'"
}

# holds COMMAND...: it succeeds.
holds() {
    checks=$((checks + 1))
    "$@" >/dev/null 2>&1 || wrong "fails: $*"
}

# soon COMMAND...: it succeeds within 10 s.
soon() {
    local until=$((SECONDS + 10))
    checks=$((checks + 1))
    until "$@" >/dev/null 2>&1; do
        if ((SECONDS >= until)); then
            wrong "not within 10 s: $*"
            return 1
        fi
        sleep 0.02
    done
}

# words N TEXT: the text has at least so many. For what is gone through word by word: of nothing everything holds.
words() {
    checks=$((checks + 1))
    [[ $(wc -w <<<"$2") -ge $1 ]] || wrong "$1 words were expected: $2"
}

# field NAME JSON
field() { python3 -c 'import json,sys; v=json.loads(sys.argv[2]); print(v[sys.argv[1]])' "$1" "$2"; }

skip() {
    echo "SKIPPED: $*"
    exit 77
}

finish() {
    echo "$checks checks, $failures wrong"
    [[ $failures -eq 0 && $checks -gt 0 ]]
    exit
}
