# The man page is clean, and tells of everything that the help tells of.
page=$CAIRN_BUILD/../../docs/cairn.1
[[ -e $page ]] || page=$(dirname "${BASH_SOURCE[0]}")/../../docs/cairn.1
exits 0 man -l --warnings -E UTF-8 "$page"
same "$err" ""
text=$(man -l "$page" | col -b)
verbs=$(cairn help | sed -n 's/^  \([a-z]*\)  .*/\1/p')
words 10 "$verbs"
for verb in $verbs; do
    says "$verb" "$text"
done
for verb in launch checkpoint list interval doctor; do
    options=$(cairn help "$verb" | grep -oE -- '--[a-z][a-z-]*' | sort -u)
    words 1 "$options"
    for option in $options; do says "$option" "$text"; done
done
for variable in CAIRN_SESSION CAIRN_CKPTDIR CAIRN_INTERVAL CAIRN_COORDINATOR CAIRN_RUNDIR; do says "$variable" "$text"; done
