#!/bin/bash
# A program in a container of systemd-nspawn's (as root) that is saved every minute and, when the container has ended, goes on in another
# one of the same root folder:
#     nspawn.sh run FOLDER ROOT PROGRAM ARGUMENTS...
#     nspawn.sh again FOLDER ROOT
# FOLDER keeps the checkpoints. ROOT holds a system, as debootstrap makes one; what the program writes there is forgotten with the
# container. CAIRN names the folder where cairn is unpacked or installed. OPTIONS: what is to be said to systemd-nspawn besides.
set -euo pipefail
cairn=${CAIRN:-/usr/local} seconds=${SECONDS_BETWEEN:-60}
[[ $# -ge 4 || (${1:-} == again && $# -eq 3) ]] || { sed -n '2,/^[^#]/{/^#/s/^# \{0,1\}//p}' "$0" >&2; exit 2; }
verb=$1 folder=$(realpath "$2") root=$3
shift 3
case $verb in
run) in_it=(/opt/cairn/bin/cairn launch --ckptdir /ckpt --interval "$seconds" -- "$@") ;;
again) in_it=(/opt/cairn/bin/cairn restart /ckpt) ;;
*) exit 2 ;;
esac
read -ra options <<<"${OPTIONS:-}"
# --as-pid2: its own little first process reaps orphans; the program isn't the first process, nor is the restart.
exec systemd-nspawn --quiet --directory "$root" --volatile=overlay --register=no --as-pid2 --bind-ro "$cairn:/opt/cairn" \
    --bind "$folder:/ckpt" --setenv "CAIRN_INTERVAL=$seconds" "${options[@]}" -- "${in_it[@]}"
