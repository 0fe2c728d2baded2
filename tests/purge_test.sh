#!/bin/sh
# Purging the package keeps recordings and foreign files in the state folders, and prints their paths.
# purge_test.sh SOURCE_DIR
set -eu
source=$1
DPKG_ROOT=$(mktemp -d)
export DPKG_ROOT
trap 'rm -rf "$DPKG_ROOT"' EXIT
complain() { echo "$*"; find "$DPKG_ROOT"; exit 1; }
lib=$DPKG_ROOT/var/lib
for name in sonard sonard-bow sonard-stern; do
    mkdir -p "$lib/private/$name/recordings"
    ln -s "private/$name" "$lib/$name"
    touch "$lib/$name/fftwf.wisdom" "$lib/$name/train.yaml" "$lib/$name/train_r1.yaml" \
        "$lib/$name/tracks" "$lib/$name/tracks.x7Gd2a"
done
echo sea >"$lib/sonard/recordings/array-20260102T030405.678Z.sigmf-data"
mkdir "$lib/sonard-bow/elsewhere"
echo sea >"$lib/sonard-bow/elsewhere/bow-20260102T030405.678Z.sonar-spectra"
sh "$source/service/debian/postrm" remove
[ -e "$lib/sonard-stern/train.yaml" ] || complain "removing took state"
sh "$source/service/debian/postrm" purge >"$DPKG_ROOT/said"
[ "$(cat "$lib/sonard/recordings/array-20260102T030405.678Z.sigmf-data")" = sea ] || complain "purging took a recording"
[ "$(cat "$lib/sonard-bow/elsewhere/bow-20260102T030405.678Z.sonar-spectra")" = sea ] || complain "purging took a recording"
grep -q "private/sonard-bow is kept" "$DPKG_ROOT/said" || complain "what is kept is not told"
[ ! -e "$lib/private/sonard-stern" ] || complain "an empty folder is left"
[ ! -L "$lib/sonard-stern" ] || complain "a link to nothing is left"
[ -z "$(find "$lib" -name 'train*' -o -name '*.wisdom' -o -name 'tracks*')" ] || complain "plans or tracks are left"
