# Where no folder is named, the newest checkpoint is found where `cairn launch` has them: here, in cairn-USER below a folder that others can write, or in $CAIRN_CKPTDIR.
home=$WORK/home
mkdir -p "$home" && cd "$home" && unset CAIRN_CKPTDIR
exits 1 cairn inspect
says "holds no complete checkpoint" "$err"
exits 1 cairn verify
says "holds no complete checkpoint" "$err"
exits 3 cairn restart
says "$home: no checkpoint in here" "$err"
says "\`cairn restart DIR\` names another folder" "$err"

goes_on() { cairn list --session here | grep -q "running, restored.*sleep 1000"; }
# $1: the folder in which it must be found
round_trip() {
    cairn launch --session here sleep 1000 2>/dev/null &
    exits 0 cairn checkpoint --session here
    exits 0 cairn checkpoint --session here --kill
    exits 0 cairn inspect
    says "sleep" "$out"
    exits 0 cairn verify
    says "/2  whole" "$out"
    exits 0 cairn restart --list
    says "generation 2, 1 process" "$out"
    cairn restart 2>"$WORK/said" &
    soon goes_on
    said=$(<"$WORK/said")$'\n'  # $(...) takes the last one away, and what the restart says next may not be there yet
    says "cairn restart: $(realpath "$1/latest")"$'\n' "$said"
    exits 0 cairn kill --session here
    wait
    exits 0 cairn quit --session here
}
# Named at the launch, and not now.
cairn launch --ckptdir there --session here sleep 1000 2>/dev/null &
exits 0 cairn checkpoint --session here --kill
exits 0 cairn quit --session here
wait
exits 3 cairn restart
says "; there is one in $home/there; " "$err"
rm -r there

round_trip "$home"
rm -r "${home:?}"/*

chmod 1777 "$home"
round_trip "$home/cairn-$(id -un)"
# What `cairn launch` would write to isn't there, but the checkpoints were carried to this folder.
mv "$home"/cairn-*/* "$home" && rmdir "$home"/cairn-*
exits 0 cairn restart --list

export CAIRN_CKPTDIR=$WORK/named
round_trip "$WORK/named"
exits 0 cairn export "$WORK/one.tar"
rm -r "$CAIRN_CKPTDIR"
exits 0 cairn import "$WORK/one.tar"
says "$WORK/named/" "$out"
