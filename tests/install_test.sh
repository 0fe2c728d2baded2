#!/bin/sh
# An installation in an empty folder: every program is there and runs, and finds what came with it.
# install_test.sh BUILD_DIR
set -eu
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
cmake --install "$1" --prefix "$place" >"$place/log" || { cat "$place/log" && exit 1; }
for program in sonard sonar-sim sonar-replay sonar-watch sonar-check sonar-bench; do
    "$place/bin/$program" --version || { echo "$program does not run" && exit 1; }
done
"$place/bin/sonard" --check-config "$place/share/sonard/demo.yaml" >/dev/null
for document in README.md running.md; do
    test -s "$(find "$place/share" -name "$document")" || { echo "$document is missing" && exit 1; }
done
if [ -e "$1/lib/libsonar-cuda.so" ]; then
    test -e "$place/lib/libsonar-cuda.so" || { echo "the plugin is not where sonard looks" && exit 1; }
fi
