#!/bin/sh
# The installed units: systemd accepts them, and they restrict the daemon's access to the machine.
# service_test.sh BUILD_DIR SOURCE_DIR; exit 77: skipped.
set -eu
build=$1 source=$2
complain() { echo "$*" && exit 1; }
command -v systemd-analyze >/dev/null || { echo "skipped: there is no systemd-analyze" && exit 77; }
systemd-analyze security --help 2>/dev/null | grep -q -- --offline || { echo "skipped: systemd-analyze cannot judge files (before 250)" && exit 77; }
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
cmake --install "$build" --prefix "$place" >"$place/log" || { cat "$place/log" && exit 1; }
units=$place/lib/systemd/system
rm -rf "$units"/*.d
export SYSTEMD_UNIT_PATH="$units:" SYSTEMD_LOG_LEVEL=warning

# UNIT DROP-IN MOST: the exposure that systemd counts, from 0 to 10
judge() {
    rm -rf "$units/$1.d"
    if [ "$2" ]; then
        mkdir "$units/$1.d"
        cp "$2" "$units/$1.d/"
    fi
    # Ignores messages on other units of this machine, and on missing manual pages.
    systemd-analyze verify --man=no "$units/$1" 2>&1 | grep -i "$1\|sonard\|\.conf" && complain "$1 ${2##*/}: systemd does not accept it"
    systemd-analyze security --offline=true "$1" >"$place/report" 2>&1 || { cat "$place/report" && complain "$1 cannot be judged"; }
    exposure=$(sed -n 's/.*Overall exposure level.*: \([0-9.]*\) .*/\1/p' "$place/report")
    echo "$1 ${2##*/}: $exposure, at most $3"
    awk -v is="$exposure" -v most="$3" 'BEGIN { exit !(is != "" && is + 0 <= most) }' || { grep '✗' "$place/report" && complain "$1 ${2##*/} is too exposed"; }
}

for unit in sonard.service sonard@demo.service; do
    file=$unit
    [ "$unit" = sonard.service ] || { cp "$units/sonard@.service" "$units/$unit"; }
    judge "$file" "" 2.0
    judge "$file" "$source/service/gpu.conf" 3.0
done
sed 's|/usr/bin/mpirun|/bin/true|' "$place/share/doc/sonard/examples/mpi.conf" >"$place/mpi.conf"
judge sonard.service "$place/mpi.conf" 3.0
