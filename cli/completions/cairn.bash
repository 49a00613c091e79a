# bash completion for cairn; installed as .../bash-completion/completions/cairn

_cairn_sessions() {
    local run=${CAIRN_RUNDIR:-}
    if [[ -z $run ]]; then
        run=/tmp/cairn-$EUID
        [[ -e $run && ! -O $run && -n ${XDG_RUNTIME_DIR:-} && -O $XDG_RUNTIME_DIR ]] && run=$XDG_RUNTIME_DIR/cairn
    fi
    local folder
    for folder in "$run"/*/; do
        [[ -d $folder ]] && basename -- "$folder"
    done
}

_cairn_services() {
    local file
    for file in "${XDG_CONFIG_HOME:-$HOME/.config}"/cairn/services/*.conf /etc/cairn/services/*.conf; do
        [[ -e $file ]] && basename -- "$file" .conf
    done
}

_cairn() {
    local verbs='launch checkpoint restart list status top outside interval kill quit coordinator inspect verify prune export import witness doctor causality mpi slurm service help --version'
    local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]} verb=${COMP_WORDS[1]} i
    COMPREPLY=()
    if ((COMP_CWORD == 1)); then
        mapfile -t COMPREPLY < <(compgen -W "$verbs" -- "$word")
        return
    fi
    if [[ $verb == launch || $verb == outside ]]; then
        # Behind the program's name its own completion goes on.
        for ((i = 2; i < COMP_CWORD; i++)); do
            case ${COMP_WORDS[i]} in
            --session | --ckptdir | --interval | --coordinator | --key | --keep | --files | --with | --plugin | --cpu | --io-uring | --external | --landlock | --compress | -s | -d | -i | -c | -k) ((i++)) ;;
            --) ;;
            -*) ;;
            *)
                if declare -F _command_offset >/dev/null; then
                    _command_offset "$i"
                else
                    mapfile -t COMPREPLY < <(compgen -f -- "$word")
                fi
                return
                ;;
            esac
        done
    fi
    case $before in
    --session | -s)
        mapfile -t COMPREPLY < <(compgen -W "$(_cairn_sessions)" -- "$word")
        return
        ;;
    --ckptdir | -d)
        mapfile -t COMPREPLY < <(compgen -d -- "$word")
        return
        ;;
    --ids)
        mapfile -t COMPREPLY < <(compgen -W 'auto exact virtual' -- "$word")
        return
        ;;
    --files)
        local ways='save leave'
        [[ $verb == restart ]] && ways='auto restore refuse use truncate make'
        mapfile -t COMPREPLY < <(compgen -W "$ways" -- "$word")
        return
        ;;
    --compress)
        mapfile -t COMPREPLY < <(compgen -W 'none auto lz4 zstd' -- "$word")
        return
        ;;
    --plugin)
        mapfile -t COMPREPLY < <(compgen -f -- "$word")
        return
        ;;
    --with)
        mapfile -t COMPREPLY < <(compgen -d -- "$word")
        return
        ;;
    --interval | -i | --timeout | -t | --wait | --keep | --linger | --listen | --host | --coordinator | -c | --part | -p) return ;;
    --key) mapfile -t COMPREPLY < <(compgen -f -- "$word") && return ;;
    esac
    local options= what='check cuts places zigzag recovery-line simulate lint convert view'
    if [[ $verb == causality && COMP_CWORD -eq 2 && $word != -* ]]; then
        mapfile -t COMPREPLY < <(compgen -W "$what" -- "$word")
        return
    fi
    what='record replay debug recovery-line trim trace lint break continue where check check-places pass'
    if [[ $verb == mpi && COMP_CWORD -eq 2 && $word != -* ]]; then
        mapfile -t COMPREPLY < <(compgen -W "$what" -- "$word")
        return
    fi
    if [[ $verb == slurm && COMP_CWORD -eq 2 && $word != -* ]]; then
        mapfile -t COMPREPLY < <(compgen -W run -- "$word")
        return
    fi
    if [[ $verb == service && $word != -* ]]; then
        if ((COMP_CWORD == 2)); then
            mapfile -t COMPREPLY < <(compgen -W 'run status check forget' -- "$word")
        else
            mapfile -t COMPREPLY < <(compgen -W "$(_cairn_services)" -- "$word")
        fi
        return
    fi
    case $verb in
    mpi)
        options='--help'
        case ${COMP_WORDS[2]} in
        record) options+=' --out --force --contents --clock --checkpoints --checkpoint-every --mpi' ;;
        replay) options+=' --wait --trace --rank --gdb --mpi' ;;
        debug) options+=' --live --back-within --checkpoints --every --memory --images --json --dap --gdb --web --port --from --mpi' ;;
        recovery-line) options+=' --failed --json' ;;
        trim) options+=' --every --in --may-write --json --mpi' ;;
        trace) options+=' --out --mpi' ;;
        break) options+=' --rank --at --mpi' ;;
        continue) options+=' --rank --at --end --no-wait' ;;
        where | check | lint) options+=' --json' ;;
        check-places) options+=' --out --at --before --wait --mpi' ;;
        pass) options+=' --mpi' ;;
        esac
        ;;
    causality)
        options='--json --help'
        case ${COMP_WORDS[2]} in
        cuts) options+=' --after --before --is --most' ;;
        places) options+=' --after --before --is --interval --most' ;;
        zigzag) options+=' --from --to --extends --most' ;;
        recovery-line) options+=' --failed' ;;
        simulate)
            options+=' --protocol --traffic --processes --messages --checkpoint-every --delay --unordered --differences'
            options+=' --failures --seed --svg --figure'
            ;;
        convert) options+=' --to' ;;
        view) options+=' --failed --by-time --most --around --events' ;;
        esac
        ;;
    launch) options='--session --ckptdir --interval --keep --self-contained --track-mem --io-uring --cpu --external --landlock --compress --files --with --plugin --coordinator --key --help' ;;
    checkpoint) options='--session --ckptdir --kill --timeout --self-contained --track-mem --without-strangers --external --landlock --compress --files --with --witness --json --quiet --help' ;;
    list) options='--session --stacks --waits --json --help' ;;
    top) options='--session --once --json --help' ;;
    status | interval | kill | quit) options='--session --json --help' ;;
    restart) options='--session --host --coordinator --key --list --part --wait --ids --files --path-map --trust-folder --verify --check --on --env --unset --pause --eager --lazy --quiet --verbose --help' ;;
    coordinator) options='--session --ckptdir --interval --keep --daemon --auto --linger --self-contained --track-mem --external --landlock --compress --listen --coordinator --key --host --help' ;;
    witness) options='--looks --region --before --after --living --verify --rules --help' ;;
    doctor) options='--ckptdir --timeout --json --help' ;;
    export | import) options='--json --help' ;;
    verify) options='--json --help' ;;
    prune) options='--keep --older --damaged --dry-run --json --help' ;;
    inspect) options='--maps --fds --signals --threads --all --verify --diff --stacks --grep --dot --core --html --json --help' ;;
    slurm) options='--interval --ckptdir --name --keep --before --poll --signal --all-nodes --no-verify --help' ;;
    service) options='--system --user --json --help' ;;
    help) options=$verbs ;;
    esac
    if [[ $word == -* || $verb == help ]]; then
        mapfile -t COMPREPLY < <(compgen -W "$options" -- "$word")
        return
    fi
    case $verb in
    launch | outside | slurm) mapfile -t COMPREPLY < <(compgen -c -- "$word") ;;
    restart | verify | prune) mapfile -t COMPREPLY < <(compgen -d -- "$word") ;;
    inspect | export | import | causality | mpi) mapfile -t COMPREPLY < <(compgen -f -- "$word") ;;
    esac
}

complete -o filenames -F _cairn cairn
