#!/bin/bash
# Runs as root inside the machine that scripts/package-test boots; /debs holds revisions 1 and 2 of all packages.
set -euo pipefail
cd /debs
complain() {
    echo "failed: $*"
    systemctl status --no-pager --full sonard || true
    journalctl --no-pager -n 60 || true
    exit 1
}
step() { echo "$*"; }
# Neither `! command` nor the first of `a && b` ends a script under set -e: so each is a line of its own, and this.
not() { if "$@"; then return 1; fi; }
property() { systemctl show --value -p "$2" "$1"; }
await() { # SECONDS COMMAND...
    local left=$(($1 * 5))
    shift
    until "$@"; do
        ((left-- > 0)) || complain "still not: $*"
        sleep 0.2
    done
}
is_active() { [ "$(property "$1" ActiveState)" = active ]; }
status_says() { property "$1" StatusText | grep "$2" >/dev/null; }
feed() { # SECONDS [CONFIGURATION [OPTION]...]: samples by the simulator
    sonar-sim --duration "$1" --config "${2:-/etc/sonard/sonard.yaml}" --rate realtime "${@:3}" \
        --scene /usr/share/sonard/scenes/one-source.yaml >/dev/null 2>sim.log || complain "sonar-sim: $(cat sim.log)"
}
spectra() { sonar-watch --topic cbf.azimuth --json --count 2 --timeout 20 >spectra || complain "no spectra"; }
# Feeds samples and waits for two spectra.
works() {
    feed 8 "$@" &
    spectra
    wait $!
}
units=/etc/systemd/system/sonard.service.d
drop_in() { # NAME <content
    mkdir -p $units
    cat >$units/"$1".conf
    systemctl daemon-reload
}
# The first drop-in on a page of the documents.
drop_in_of() { awk '/^```/ && shown { exit } /^\[(Unit|Service)\]/ { shown = 1 } shown' "/usr/share/doc/sonard/$1"; }
configure() { # the packages' configuration and what is given besides
    { cat good.yaml && cat; } >/etc/sonard/sonard.yaml
    sonard --check-config /etc/sonard/sonard.yaml >/dev/null || complain "the configuration is refused"
}
# Restores the state at the end of a step.
plain() {
    rm -rf $units
    cp good.yaml /etc/sonard/sonard.yaml
    systemctl daemon-reload
    systemctl reset-failed sonard 2>/dev/null || true
    systemctl restart sonard
}
says() { journalctl --sync && journalctl -u sonard --since "$1" | grep -- "$2" >/dev/null; }
trap 'complain "line $LINENO"' ERR

step "install: nothing is enabled, nothing runs"
packages=$(for deb in *-1_*.deb; do dpkg-deb -f "$deb" Package; done)
dpkg -i ./*-1_*.deb >/dev/null
[ "$(systemctl is-enabled sonard || true)" = disabled ]
not systemctl is-active --quiet sonard
sonard --check-config /etc/sonard/sonard.yaml >/dev/null
[ "$(stat -c %a /etc/sonard/keys)" = 700 ]

step "libsonar-dev brings all that libsonar-static.pc requires"
for name in $(sed -n 's/^Requires: //p' "$(find /usr/lib -name libsonar-static.pc)" | sed 's/>= [0-9.]*//g'); do
    [ -n "$(find /usr/lib /usr/share -name "$name.pc")" ] || complain "$name.pc is missing"
done

step "start: it is ready when its sockets listen, and processes what the simulator sends"
systemctl start sonard
is_active sonard
sonar-watch --topic status --count 1 --timeout 5 >/dev/null
await 10 status_says sonard '^waiting'
sonar-sim --config /etc/sonard/sonard.yaml --scene /usr/share/sonard/scenes/one-source.yaml --duration 10 --rate realtime &
sim=$!
sonar-watch --topic cbf.azimuth --count 2 --timeout 8 >/dev/null
await 10 status_says sonard '^ok; .* windows; lost: 0 frames, 0 windows, 0 results; cpu$'
wait $sim

step "it is a user of its own that may write its two folders and nothing else"
pid=$(property sonard MainPID)
awk '/^Uid:/ { exit $2 == 0 }' "/proc/$pid/status"
[ -d /var/lib/private/sonard ]
[ -d /run/sonard ]
grep -q "^CapEff:\s*0000000000000000$" "/proc/$pid/status"

step "it could do little to the machine, by this release's own judgement"
systemd-analyze security --no-pager sonard >security
exposure=$(sed -n 's/.*Overall exposure level.*: \([0-9.]*\) .*/\1/p' security)
echo "exposure $exposure"
awk -v is="$exposure" 'BEGIN { exit !(is != "" && is <= 2) }'

step "the journal has fields"
journalctl --sync
journalctl -u sonard -o json >journal
grep -q '"SONAR_WHERE":"sonard"' journal
grep '"SONAR_WHERE":"sonard"' journal | grep '"PRIORITY":"6"' >/dev/null

step "programs find libsonar.so, and no plugin as a library"
[ "$(ldconfig -p | grep -o 'libsonar[^ ]* ' | tr -d '\n')" = 'libsonar.so.0 libsonar.so ' ]

step "keys reach it as credentials"
(cd /etc/sonard/keys && umask 077 && echo secret >probe)
systemctl restart sonard
[ "$(cat /run/credentials/sonard.service/keys_probe)" = secret ]

step "a reload is told to systemd and keeps the process"
pid=$(property sonard MainPID)
sed -i 's/^sound_speed_mps: 1500/sound_speed_mps: 1490/' /etc/sonard/sonard.yaml
systemctl reload sonard
await 10 is_active sonard
[ "$(property sonard MainPID)" = "$pid" ]

step "a reload of a wrong file is told by systemctl, and the service goes on as it was"
cp /etc/sonard/sonard.yaml good.yaml
echo 'nonsense: 1' >>/etc/sonard/sonard.yaml
since=$(date '+%F %T')
not systemctl reload sonard 2>/dev/null
await 10 says "$since" 'unknown key "nonsense"'
cp good.yaml /etc/sonard/sonard.yaml
is_active sonard
[ "$(property sonard MainPID)" = "$pid" ]
systemctl reload sonard

step "sonarctl reaches the service, as root or its user"
sonarctl version >/dev/null
not su nobody -s /bin/sh -c 'sonarctl version' 2>said
grep -q 'this user may not' said
sonarctl set sound_speed_mps 1495 >/dev/null
[ "$(sonarctl get sound_speed_mps)" = 1495 ]

step "a process that stands still is killed by the watchdog and started again"
mkdir -p /run/systemd/system/sonard.service.d
printf '[Service]\nWatchdogSec=3\n' >/run/systemd/system/sonard.service.d/watchdog.conf
systemctl daemon-reload
systemctl restart sonard
pid=$(property sonard MainPID)
kill -STOP "$pid"
replaced() { [ "$(property sonard NRestarts)" -ge 1 ] && is_active sonard; }
await 30 replaced
[ "$(property sonard MainPID)" != "$pid" ]
journalctl -u sonard | grep -i watchdog >/dev/null
rm -r /run/systemd/system/sonard.service.d
systemctl daemon-reload

step "a wrong configuration is not tried again"
cp /etc/sonard/sonard.yaml good.yaml
echo 'nonsense: 1' >>/etc/sonard/sonard.yaml
not systemctl restart sonard
sleep 3
[ "$(property sonard ActiveState)" = failed ]
[ "$(property sonard ExecMainStatus)" = 2 ]
cp good.yaml /etc/sonard/sonard.yaml
systemctl restart sonard

step "real-time priority of the data thread alone, and locked memory"
sed 's/^runtime:$/&\n  data_priority: 10\n  lock_memory: true/' good.yaml >/etc/sonard/sonard.yaml
systemctl restart sonard
works
pid=$(property sonard MainPID)
locked_kib=$(sed -n 's/^VmLck:[^0-9]*\([0-9]*\) kB/\1/p' "/proc/$pid/status")
resident_kib=$(sed -n 's/^VmRSS:[^0-9]*\([0-9]*\) kB/\1/p' "/proc/$pid/status")
real_time() { # how many threads of that name have SCHED_FIFO and the priority 10
    local thread count=0
    for thread in /proc/"$pid"/task/*; do
        grep -qx "$1" "$thread/comm" || continue
        chrt -p "${thread##*/}" | tr '\n' ' ' | grep 'SCHED_FIFO.* priority: 10 $' >/dev/null && count=$((count + 1))
    done
    echo "$count"
}
sonar-watch --topic status --json --count 1 --timeout 5 >status
# Skipped if systemd may not raise limits (CAP_SYS_RESOURCE, bit 24), as in some containers.
if (($(sed -n 's/^CapEff:[^0-9a-f]*/0x/p' /proc/1/status) >> 24 & 1)); then
    grep -q "^Max realtime priority *20 " "/proc/$pid/limits"
    grep -q "^Max locked memory *unlimited " "/proc/$pid/limits"
    [ "$(real_time sonar-data)" = 1 ]
    [ "$(real_time '.*')" = 1 ]
    ((locked_kib >= resident_kib))
    grep -q '"data_priority":10[,}]' status
    not grep -q 'priority_refused\|memory_unlocked' status
    echo "granted by limits: priority 10, $locked_kib KiB locked, $resident_kib KiB resident"
else
    [ "$(real_time '.*')" = 0 ]
    [ "$locked_kib" = 0 ]
    grep -q '"priority_refused",[^}]*RLIMIT_RTPRIO is 0; LimitRTPRIO=10' status
    grep -q '"memory_unlocked",[^}]*RLIMIT_MEMLOCK is [0-9]* MiB of' status
    echo "refused and told: this machine's systemd may not raise limits"
fi
plain

step "several arrays on one node: each has its unit, its folders and its ports"
sed -e 's/:5555/:5565/; s/:5556/:5566/; s/name: array-1/name: bow/' good.yaml >/etc/sonard/bow.yaml
systemctl start sonard@bow
is_active sonard@bow
is_active sonard
[ -d /run/sonard-bow ]
[ -d /run/sonard ]
sonar-watch --config /etc/sonard/bow.yaml --topic status --count 1 --timeout 5 >/dev/null
sonarctl -e ipc:///run/sonard-bow/control version >/dev/null
await 10 test -e /var/lib/sonard-bow/fftwf.wisdom
systemctl enable sonard@bow 2>/dev/null

step "training as the service's user, into its folder"
systemctl stop sonard
timeout 100 systemd-run --quiet --wait --pipe -p DynamicUser=yes -p User=sonard -p StateDirectory=sonard \
    sonard --train /etc/sonard/sonard.yaml >/debs/training
[ -n "$(ls -A /var/lib/sonard/)" ]
systemctl start sonard
await 10 status_says sonard '^waiting'

step "recording into the state folder"
configure <<<'record: {what: raw}'
systemctl restart sonard
works
sonarctl record stop >/dev/null
recorded() { find "$1" -name '*.sigmf-data' -size +100k | grep . >/dev/null; }
await 10 recorded /var/lib/private/sonard/recordings

step "recording to another folder: refused in plain words, and with the page's drop-in it works"
groupadd --system recordings
install -d -m 2770 -g recordings /srv/sonar
configure <<<'record: {what: raw, directory: /srv/sonar}'
since=$(date '+%F %T')
not systemctl restart sonard 2>/dev/null
await 10 says "$since" 'record.directory: /srv/sonar cannot be opened: Permission denied; .*SupplementaryGroups='
drop_in_of recording.md | grep -v ReadWritePaths | drop_in recording
not systemctl restart sonard 2>/dev/null
await 10 says "$since" '/srv/sonar cannot be written: Read-only file system; ReadWritePaths='
drop_in_of recording.md | drop_in recording
systemctl restart sonard
works
sonarctl record stop >/dev/null
await 10 recorded /srv/sonar
[ "$(stat -c '%a %G' "$(find /srv/sonar -name '*.sigmf-data' | head -n 1)")" = '640 recordings' ]

step "a disk that becomes full ends the recording, and nothing else"
systemctl stop sonard
mount -t tmpfs -o size=600k,mode=2770,gid="$(getent group recordings | cut -d: -f3)" tmpfs /srv/sonar
configure <<<'record: {what: raw, directory: /srv/sonar, free_mib: 0}'
systemctl restart sonard
since=$(date '+%F %T')
works
await 10 says "$since" 'recording has stopped: .*No space left on device'
[ -n "$(journalctl -q -u sonard --since "$since" SONAR_CODE=recording_stopped)" ]
sonar-watch --topic status --json --count 1 --timeout 5 >status
grep '"windows":{[^}]*"dropped":{[^}]*"overload":0,' status >/dev/null
systemctl stop sonard
umount /srv/sonar
plain

step "a serial line with NMEA, with the page's drop-in; the journal is found by a condition's code"
sentence() { # BODY
    local sum=0 i c
    for ((i = 0; i < ${#1}; i++)); do
        printf -v c %d "'${1:i:1}"
        ((sum ^= c)) || true
    done
    printf '$%s*%02X\r\n' "$1" "$sum"
}
while sentence HEHDT,213.0,T 2>/dev/null && sleep 0.2; do :; done |
    socat -u - pty,link=/dev/ttyNMEA,group=dialout,mode=660,rawer &
line=$!
await 10 test -e /dev/ttyNMEA
configure <<<'navigation: {nmea: /dev/ttyNMEA, baud: 4800}'
since=$(date '+%F %T')
not systemctl restart sonard 2>/dev/null # the unit sees no devices
await 10 says "$since" '/dev/ttyNMEA: cannot be read as a serial line: No such file'
drop_in_of navigation.md | sed 's/char-ttyUSB/char-pts/' | drop_in serial
systemctl restart sonard
works
grep -q '"heading_deg":213,' spectra
kill $line
stale() { journalctl --sync && [ -n "$(journalctl -q -u sonard SONAR_CODE=heading_stale)" ]; }
await 20 stale
plain

step "two ranks under mpirun, with the example's drop-in"
sed 's/SONAR_RANKS=1/SONAR_RANKS=2/' /usr/share/doc/sonard/examples/mpi.conf | drop_in mpi
sed -i 's|"tcp://127.0.0.1:5555"|"tcp://127.0.0.1:557{rank}"|' /etc/sonard/sonard.yaml
sed 's|"tcp://127.0.0.1:5555"|"tcp://127.0.0.1:5570", "tcp://127.0.0.1:5571"|' good.yaml >/debs/digitisers.yaml
since=$(date '+%F %T')
systemctl restart sonard
is_active sonard
await 10 says "$since" 'rank 1 of 2'
works /debs/digitisers.yaml --digitisers 2 # one for each rank
grep -q '"missing_share":{"mean":0,"worst":0}' spectra
await 10 status_says sonard '^ok; .* windows; lost: 0 frames, 0 windows, 0 results; cpu$'
sonar-watch --topic status --json --count 1 --timeout 5 | grep -q '"ranks":\[{'
systemctl stop sonard
[ "$(property sonard Result)" = success ]
[ "$(property sonard NRestarts)" = 0 ]
plain

step "the dashboard shows its page what the service publishes"
systemd-run --quiet --unit dashboard -p DynamicUser=yes sonar-dashboard tcp://127.0.0.1:5556
cat >page.cjs <<'PAGE'
const { WebSocket } = require("/usr/lib/sonard/dashboard/node_modules/ws");
const fail = (why) => { console.error(why); process.exit(1); };
setTimeout(() => fail("no row within 30 s"), 30000);
(async () => {
    const answer = await fetch("http://127.0.0.1:8088/");
    if (answer.status !== 200 || !/<script/.test(await answer.text())) fail("no page");
    const socket = new WebSocket("ws://127.0.0.1:8088/");
    socket.on("error", (error) => fail(error.message));
    socket.on("open", () => socket.send(JSON.stringify({ type: "want", topics: ["cbf.azimuth"] })));
    socket.on("message", (data) => {
        const said = JSON.parse(data.subarray(4, 4 + data.readUInt32LE(0)).toString());
        if (said.type === "row" && said.header.topic === "cbf.azimuth") process.exit(0);
    });
})().catch((error) => fail(error.message));
PAGE
shown() { node -e 'fetch("http://127.0.0.1:8088/").then(() => process.exit(0), () => process.exit(1))'; }
await 20 shown
feed 15 &
node page.cjs || complain "the page gets no row"
wait $!
systemctl stop dashboard

step "upgrade: what runs is restarted with the new program, what is edited is kept"
pid=$(property sonard MainPID)
dpkg -i --force-confold ./*-2_*.deb >/dev/null
await 10 is_active sonard
await 10 is_active sonard@bow
[ "$(property sonard MainPID)" != "$pid" ]
grep -q '^sound_speed_mps: 1490' /etc/sonard/sonard.yaml
systemctl stop sonard
dpkg -i --force-confold sonard_*-2_*.deb >/dev/null
not systemctl is-active --quiet sonard # a stopped one stays stopped

step "stop: in good order"
systemctl start sonard
systemctl stop sonard
[ "$(property sonard Result)" = success ]
[ "$(property sonard ExecMainStatus)" = 0 ]
[ ! -e /run/sonard ]

step "remove: what runs is stopped, state and configuration stay"
systemctl start sonard
dpkg -r $packages >/dev/null
not systemctl is-active --quiet sonard
not systemctl is-active --quiet sonard@bow
[ -z "$(find /usr -name '*sonar*')" ]
[ -e /etc/sonard/sonard.yaml ]
[ -d /var/lib/private/sonard ]

step "purge: plans and choices go; recordings, keys and the owner's own configurations stay"
dpkg -P sonard >/dev/null 2>&1
recorded /var/lib/sonard/recordings
[ -z "$(find /var/lib/private/sonard -mindepth 1 -maxdepth 1 ! -name recordings)" ]
[ ! -e /var/lib/private/sonard-bow ]
[ ! -L /var/lib/sonard-bow ]
[ ! -e /etc/sonard/sonard.yaml ]
[ -e /etc/sonard/bow.yaml ]
[ -e /etc/sonard/keys/probe ]
[ -z "$(find /etc/systemd/system -name 'sonard*' -type l)" ] # it was enabled
echo passed
