#!/bin/bash
# A program in a container of bubblewrap's, made by an ordinary user of this machine's own files. It is saved every minute and, when the
# container has ended, goes on in another one:
#     bubblewrap.sh run FOLDER PROGRAM ARGUMENTS...
#     bubblewrap.sh again FOLDER
# FOLDER keeps the checkpoints, and is the only one that can be written to; in the container it is /mnt, where the program begins. CAIRN
# names the folder where cairn is unpacked or installed. OPTIONS: what is to be said to bwrap besides.
set -euo pipefail
cairn=${CAIRN:-/usr/local}/bin/cairn seconds=${SECONDS_BETWEEN:-60}
[[ $# -ge 3 || (${1:-} == again && $# -eq 2) ]] || { sed -n '2,/^[^#]/{/^#/s/^# \{0,1\}//p}' "$0" >&2; exit 2; }
verb=$1 folder=$(realpath "$2")
shift 2
case $verb in
run) in_it=("$cairn" launch --ckptdir /mnt/ckpt --interval "$seconds" -- "$@") ;;
again) in_it=("$cairn" restart /mnt/ckpt) ;;
*) exit 2 ;;
esac
read -ra options <<<"${OPTIONS:-}"
export CAIRN_INTERVAL=$seconds
exec bwrap --ro-bind / / --dev /dev --proc /proc --tmpfs /tmp --tmpfs /run --bind "$folder" /mnt --chdir /mnt \
    --unshare-pid --unshare-ipc --unshare-net --die-with-parent "${options[@]}" -- "${in_it[@]}"
