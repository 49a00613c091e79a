#!/bin/bash
# A program in a container that is saved every minute and, when the container has ended, goes on in another one of the same image:
#     podman.sh run FOLDER IMAGE PROGRAM ARGUMENTS...
#     podman.sh again FOLDER IMAGE
# FOLDER keeps the checkpoints. Neither the image nor the program knows of cairn: it is bound into the container from where it is
# unpacked or installed, which CAIRN names. ENGINE=docker for Docker. OPTIONS: what is to be said to the engine besides.
set -euo pipefail
cairn=${CAIRN:-/usr/local} engine=${ENGINE:-podman} seconds=${SECONDS_BETWEEN:-60}
[[ $# -ge 3 || (${1:-} == again && $# -ge 2) ]] || { sed -n '2,/^[^#]/{/^#/s/^# \{0,1\}//p}' "$0" >&2; exit 2; }
verb=$1 folder=$(realpath "$2")
shift 2
case $verb in
run) in_it=(/opt/cairn/bin/cairn launch --ckptdir /ckpt --interval "$seconds" -- "${@:2}") ;;
again) in_it=(/opt/cairn/bin/cairn restart /ckpt) ;;
*) exit 2 ;;
esac
read -ra options <<<"${OPTIONS:-}"
# cairn is the first process, and hands on to the program what the container is sent.
exec "$engine" run --rm --volume "$cairn:/opt/cairn:ro" --volume "$folder:/ckpt" --env "CAIRN_INTERVAL=$seconds" \
    "${options[@]}" "$1" "${in_it[@]}"
