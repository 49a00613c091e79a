# Completions offer every verb, sessions that exist, and load in their shells.
folder=$(dirname "${BASH_SOURCE[0]}")/../../cli/completions
verbs=$(cairn help | sed -n 's/^  \([a-z]*\)  .*/\1/p')
words 10 "$verbs"

complete_bash() {
    bash --norc -c 'source "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _cairn; printf "%s\n" "${COMPREPLY[@]}"' \
        bash "$folder/cairn.bash" "$@"
}
offered=$(complete_bash cairn '')
for verb in $verbs; do says "$verb" "$offered"; done
same "$(complete_bash cairn chec)" checkpoint
mkdir -p "$CAIRN_RUNDIR/night" "$CAIRN_RUNDIR/noon"
same "$(complete_bash cairn list --session ni)" night
for verb in launch checkpoint list status interval kill quit doctor; do
    offered=$(complete_bash cairn "$verb" --)
    options=$(cairn help "$verb" | grep -oE -- '--[a-z][a-z-]*' | sort -u)
    words 1 "$options"
    for option in $options; do says "$option"$'\n' "$offered"$'\n'; done
done
for tool in causality mpi; do
    offered=$(complete_bash cairn "$tool" '')
    own=$(cairn "$tool" --help | sed -n 's/^  \([a-z-]*\)  .*/\1/p')
    words 5 "$own"
    asked=0
    for verb in $own; do
        says "$verb" "$offered"
        options=$(complete_bash cairn "$tool" "$verb" --)
        for option in $(cairn "$tool" "$verb" --help | sed -n 's/^  \(-. \[ \)\?\(--[a-z-]*\).*/\2/p'); do
            says "$option" "$options"
            asked=$((asked + 1))
        done
        says "'$verb:" "$(<"$folder/_cairn")"
    done
    holds test "$asked" -gt 5
done
holds zsh -n "$folder/_cairn"
for verb in $verbs; do says "'$verb:" "$(<"$folder/_cairn")"; done
rm -rf "$CAIRN_RUNDIR"
