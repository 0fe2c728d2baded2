#!/bin/sh
# An installation in an empty folder: every program is installed, runs and finds its files; units name this
# folder; programs can be built with libsonar and plugins with its headers.
# install_test.sh BUILD_DIR SOURCE_DIR
set -eu
build=$1 source=$2
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
complain() { echo "$*" && exit 1; }

cmake --install "$build" --prefix "$place" >"$place/log" || { cat "$place/log" && exit 1; }

# ---- programs, configurations, documents
for program in sonard sonar-sim sonar-feed sonar-process sonar-replay sonar-export sonar-watch sonar-check sonar-bench sonar-keys; do
    "$place/bin/$program" --version || complain "$program does not run"
done
for config in etc/sonard/sonard.yaml share/sonard/demo.yaml; do
    "$place/bin/sonard" --check-config "$place/$config" >/dev/null || complain "$config is refused"
done
for document in README.md running.md; do
    test -s "$place/share/doc/sonard/$document" || complain "$document is missing"
done
[ "$(stat -c %a "$place/etc/sonard/keys")" = 700 ] || complain "the folder for keys is open to others"

# ---- a manual page for every program and for the configuration, with all that --help names
for program in "$place"/bin/*; do
    name=${program##*/}
    page=$(find "$place/share/man/man1" -name "$name.1.gz")
    [ "$page" ] || complain "$name has no manual page"
    gzip -dc "$page" | sed 's/\\-/-/g' >"$place/page"
    for option in $("$program" --help | grep -oE -- '--[a-z][a-z-]*'); do
        grep -q -- "$option" "$place/page" || complain "$name(1) lacks $option"
    done
done
gzip -dc "$place/share/man/man5/sonard.yaml.5.gz" | sed 's/\\-/-/g' >"$place/page"
for option in $("$place/bin/sonard" --config-reference | sed -n 's/^| `\([a-z0-9_.]*\)`.*/\1/p'); do
    grep -q "^\.B $option\$" "$place/page" || complain "sonard.yaml(5) lacks $option"
done
if command -v groff >/dev/null; then
    for page in "$place"/share/man/man*/*.gz; do
        gzip -dc "$page" | groff -man -Tutf8 -ww 2>&1 >/dev/null | grep . && complain "$page is not well formed"
    done
fi

# ---- completion: of options, and of configurations
cd "$place/etc/sonard"
bash -c '. "$1/share/bash-completion/completions/sonar-watch"
    complete_as() { COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)); _sonar "$place/bin/$1"; echo "${COMPREPLY[*]}"; }
    place=$1
    [ "$(complete_as sonard --check)" = --check-config ] && [ "$(complete_as sonard so)" = sonard.yaml ] &&
        [ "$(complete_as sonar-watch --topic mvdr.a)" = mvdr.azimuth ]' bash "$place" || complain "completion does not complete"
cd - >/dev/null

# ---- the plugin: where sonard looks, and with the path of NVIDIA's libraries, which are not installed
if [ -e "$build/lib/libsonar-cuda.so" ]; then
    plugin=$place/lib/sonard/libsonar-cuda.so
    test -e "$plugin" || complain "the plugin is not where sonard looks"
    readelf -d "$plugin" | grep -q 'RUNPATH.*\[/usr/local/cuda/lib64\]' || complain "the plugin's RUNPATH is wrong"
    test -e "$place/lib/systemd/system/sonard@.service.d/gpu.conf" || complain "the GPU's drop-in is missing"
fi
[ -z "$(find "$place" -name 'libcu*' -o -name 'libnv*')" ] || complain "NVIDIA's libraries are installed"

# ---- units
for unit in sonard.service sonard@.service; do
    file=$place/lib/systemd/system/$unit
    grep -q "^ExecStart=$place/bin/sonard $place/etc/sonard/" "$file" || complain "$unit does not start this sonard"
    ! grep -n '@[A-Z_]*@' "$file" || complain "$unit has an unfilled place"
done

# ---- libsonar: each header by itself, a program with what is inside by pkg-config and by CMake, a plugin by the headers
# alone. library_test.py tries the shared library.
export PKG_CONFIG_PATH="$(dirname "$(find "$place" -name libsonar-static.pc)")"
flags="-std=c17 -D_GNU_SOURCE -Wall -Wextra -Werror"
for header in $(cd "$place/include" && find sonar libsonar -name '*.h'); do
    printf '#include "%s"\nint main(void) { return 0; }\n' "${header#libsonar/}" >"$place/one.c"
    cc $flags -fsyntax-only $(pkg-config --cflags libsonar-static) "$place/one.c" || complain "$header needs what is not installed"
done
cat >"$place/channels.c" <<'C'
#include "config/config.h"
int main(int argc, char **argv) {
    sonar_config *config = 0;
    sonar_report *report = sonar_report_create();
    sonar_code code = sonar_config_load(argv[argc - 1], &config, report);
    sonar_report_write(report, stderr);
    sonar_report_destroy(report);
    if (!code)
        printf("%zu channels\n", config->channels);
    sonar_config_destroy(config);
    return code;
}
C
# A program has to be linked with the library's sanitizers.
sanitize=$(sed -n 's/^SONAR_SANITIZE:[A-Z]*=\(..*\)/-fsanitize=\1/p' "$build/CMakeCache.txt")
cc $flags $sanitize -o "$place/channels" "$place/channels.c" $(pkg-config --cflags --libs libsonar-static)
[ "$("$place/channels" "$place/etc/sonard/sonard.yaml")" = "32 channels" ] || complain "libsonar-static by pkg-config does not work"
cat >"$place/CMakeLists.txt" <<'C'
cmake_minimum_required(VERSION 3.25)
project(channels LANGUAGES C)
find_package(libsonar REQUIRED)
add_executable(channels_cmake channels.c)
target_compile_definitions(channels_cmake PRIVATE _GNU_SOURCE)
target_link_libraries(channels_cmake PRIVATE libsonar::static)
add_executable(version_cmake version.c)
target_link_libraries(version_cmake PRIVATE libsonar::sonar)
C
printf '#include <sonar/session.h>\n#include <stdio.h>\nint main(void) { return puts(sonar_session_version()) < 0; }\n' >"$place/version.c"
cmake -S "$place" -B "$place/build" -DCMAKE_PREFIX_PATH="$place" -DCMAKE_C_FLAGS="$sanitize" >"$place/log" 2>&1 &&
    cmake --build "$place/build" >>"$place/log" 2>&1 || { cat "$place/log" && complain "libsonar by CMake cannot be built with"; }
[ "$("$place/build/channels_cmake" "$place/etc/sonard/sonard.yaml")" = "32 channels" ] || complain "libsonar by CMake does not work"
[ "$("$place/build/version_cmake")" = "$("$place/bin/sonard" --version | awk '{ print $2 }')" ] ||
    complain "libsonar.so by CMake does not work"
cc $flags -I"$place/include" -fPIC -shared -o "$place/plugin.so" "$source/tests/plugins/plugin.c" ||
    complain "a plugin cannot be built from the installed headers"
