# The front by itself: help, version, verbs that don't exist.
exits 0 cairn help
says launch "$out"
says checkpoint "$out"
exits 2 cairn
exits 0 cairn --version
says "cairn 0." "$out"
exits 2 cairn lauch
says "did you mean 'cairn launch'?" "$err"
exits 2 cairn frobnicate
says "cairn help" "$err"
for verb in launch checkpoint restart list status interval kill quit coordinator inspect slurm service; do
    exits 0 cairn help "$verb"
    says "$verb" "$out"
    exits 0 cairn "$verb" --help
done
exits 2 cairn help frobnicate

exits 1 sh -c 'cairn help > /dev/full'

# The verb's program can't be found: named, not a crash.
cp "$CAIRN_BUILD/bin/cairn" alone
exits 1 ./alone list
says "cairn-control is not installed" "$err"
exits 1 ./alone launch true
says "libcairn.so" "$err"

# A static program: no loader, no shared library.
segments=$(readelf -l "$CAIRN_BUILD/bin/cairn")
says LOAD "$segments"
checks=$((checks + 1))
[[ $segments == *INTERP* ]] && wrong "cairn isn't static"

# Without a coordinator.
for verb in list status checkpoint kill quit "interval 5"; do
    exits 5 cairn $verb
    says "no coordinator answers" "$err"
    says "cairn launch" "$err"
done
exits 2 cairn interval
exits 2 cairn list --frobnicate
exits 1 cairn list --session ../x
exits 1 cairn list --session ''$'\n'
