# Completion of sonard's programs. Options are those that the program's own --help names, so there is
# no list here that could be out of date.
_sonar() {
    local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]}
    COMPREPLY=()
    case $word in
    -*)
        mapfile -t COMPREPLY < <(compgen -W "$("$1" --help 2>/dev/null | grep -oE -- '--[a-z][a-z-]*')" -- "$word")
        return
        ;;
    esac
    case $before in
    --topic | -t)
        [[ ${1##*/} == sonar-watch ]] &&
            mapfile -t COMPREPLY < <(compgen -W "$("$1" --help 2>/dev/null | grep -oE '[a-z]+\.[a-z]+|detections|status' | sort -u)" -- "$word")
        ;;
    esac
    # Configurations first; where there are none, any file.
    ((${#COMPREPLY[@]})) || mapfile -t COMPREPLY < <(compgen -f -X '!*.@(yaml|yml)' -- "$word"; compgen -d -- "$word")
    ((${#COMPREPLY[@]})) || mapfile -t COMPREPLY < <(compgen -f -- "$word")
}
complete -o filenames -F _sonar sonard sonarctl sonar-keys sonar-sim sonar-feed sonar-process sonar-replay sonar-export sonar-watch sonar-check sonar-bench
