#!/bin/sh
# symbols.sh LIBRARY WRAPPED.INC DOCUMENT AGENT.O: the document names every wrapped function, the library exports what the
# table lists and nothing else, needs libc and nothing else, and has neither lazy binding nor text relocations.
set -eu
library=$1 table=$2 document=$3 agent=$4
# What isn't there has no wrong symbols either: each tool's output is had first, and then looked at.
for file in "$library" "$table" "$document" "$agent"; do
    [ -s "$file" ] || { echo "$file is missing or empty"; exit 1; }
done
dynamic=$(nm -D "$library")
defined=$(nm -D --defined-only "$library")
section=$(readelf -dW "$library")
relocations=$(readelf -rW "$library")
instructions=$(objdump -d --no-show-raw-insn "$agent")
undefined=$(nm -u "$agent")
wanted=$(sed -n 's/^CAIRN_WRAPPED(\([A-Za-z0-9_]*\),.*/\1/p' "$table" | sort)
exported=$(echo "$defined" | awk '{print $3}' | sort)
[ "$(echo "$wanted" | wc -l)" -gt 20 ] || { echo "$table lists hardly any function"; exit 1; }
if [ "$wanted" != "$exported" ]; then
    echo "wrapped but not exported, or exported but not wrapped:"
    printf '%s\n%s\n' "$wanted" "$exported" | sort | uniq -u
    exit 1
fi
for name in $wanted; do
    grep -q "\`$name\`" "$document" || { echo "$document doesn't list $name"; exit 1; }
done
# The dynamic linker is there in any case; it is named for _r_debug.
needed=$(echo "$section" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' | grep -v '^ld-linux')
[ "$needed" = libc.so.6 ] || { echo "needs: $needed"; exit 1; }
# One build is for all: programs of a distribution with an older glibc load it, too.
newest=$(echo "$dynamic" | sed -n 's/.*@GLIBC_\([0-9.]*\)$/\1/p' | sort -V | tail -n 1)
[ "$(printf '%s\n' "$newest" 2.28 | sort -V | tail -n 1)" = 2.28 ] || { echo "needs glibc $newest"; exit 1; }
! echo "$dynamic" | grep GLIBC_PRIVATE || exit 1
echo "$section" | grep -q BIND_NOW || { echo "not bound at once"; exit 1; }
! echo "$section" | grep -q TEXTREL || { echo "has text relocations"; exit 1; }
bound=$(echo "$relocations" | awk '/JUMP_SLO|GLOB_DAT/ {sub(/@.*/, "", $5); print $5}')
[ -n "$bound" ] || { echo "calls nothing of libc's: that can't be"; exit 1; }
for name in $bound; do
    ! echo "$wanted" | grep -qx "$name" || { echo "a program's own $name would be called by the library in place of the library's"; exit 1; }
done
constructors=$(echo "$section" | sed -n 's/.*(INIT_ARRAYSZ) *\([0-9]*\) .*/\1/p')
# crtbegin's frame_dummy and ours
[ "$constructors" = 16 ] || { echo "INIT_ARRAYSZ is $constructors: more than one constructor"; exit 1; }
! echo "$dynamic" | grep -Ew 'U (malloc|calloc|realloc|free|_Znwm|pthread_create)' || exit 1

# (`environ` is a variable, whose address its door says.)
# The agent runs between any two instructions of the program, and only the general registers are put back after it.
echo "$instructions" | grep -qw syscall || { echo "$agent has no system call: that is no agent"; exit 1; }
! echo "$instructions" | grep -E '%([xyz]?mm[0-9]|st\b|k[0-7])' || { echo "the agent uses vector registers"; exit 1; }
! echo "$undefined" | grep -v -e _GLOBAL_OFFSET_TABLE_ -e '^ *U environ$' -e '^environ$' -e '^$' || { echo "the agent calls others, who may use vector registers"; exit 1; }
