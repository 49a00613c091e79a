# What launch refuses before it does anything, and how.
exits 2 cairn launch
says "which program" "$err"
exits 2 cairn launch --session
exits 2 cairn launch --frobnicate true
exits 2 cairn launch --interval soon true
says "no number of seconds" "$err"
exits 2 cairn launch --interval 1e3 true
# Nobody is there, and nobody has said a key: refused before a connection is tried.
exits 5 env CAIRN_RUNDIR="$WORK/relay" cairn launch --coordinator 127.0.0.1:1 true
says "wants its key proved" "$err"
exits 5 env CAIRN_RUNDIR="$WORK/relay" CAIRN_COORDINATOR=127.0.0.1:1 cairn launch true
exits 127 cairn launch no-such-program
says "not found" "$err"
exits 127 cairn launch ./nothing
exits 127 env -u PATH "$CAIRN_BUILD/bin/cairn" launch no-such-program
exits 127 cairn launch ''
exits 126 cairn launch /etc/passwd
exits 126 cairn launch /
mkdir bin
echo true >bin/plain  # found in PATH, not executable
exits 126 env PATH="$WORK/bin" "$CAIRN_BUILD/bin/cairn" launch plain
# An ELF file of another class: its head is all that is looked at.
{ printf '\177ELF\1\1\1'; head -c 200 /dev/zero; } >narrow
chmod +x narrow
exits 3 cairn launch ./narrow
says "./narrow: refused: 32-bit program" "$err"
printf '#!%s/narrow\n' "$WORK" >script
chmod +x script
exits 3 cairn launch ./script
says "run by $WORK/narrow" "$err"
printf '#!/no/such/interpreter\n' >broken
chmod +x broken
exits 127 cairn launch ./broken
says "its interpreter /no/such/interpreter" "$err"
exits 3 cairn launch cairn list
if [[ $(id -u) -eq 0 ]]; then
    chmod 755 "$WORK"
    cp /bin/true setuid
    chmod 4755 setuid
    # With a session folder of the user's own: refused before that is looked at, though.
    exits 3 setpriv --reuid 1234 --regid 1234 --clear-groups env CAIRN_RUNDIR=/tmp/cairn-none "$CAIRN_BUILD/bin/cairn" launch ./setuid
    says "set-id" "$err"
fi
# Nothing of that has made a session.
checks=$((checks + 1))
[[ ! -e $CAIRN_RUNDIR ]] || wrong "a refused launch left $CAIRN_RUNDIR"
