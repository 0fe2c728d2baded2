#!/bin/bash
# Runs as root inside the machine that scripts/package-test boots; /debs holds revisions 1 and 2.
set -euo pipefail
cd /debs
complain() {
    echo "failed: $*"
    systemctl status --no-pager --full sonard || true
    journalctl --no-pager -n 60 || true
    exit 1
}
step() { echo "$*"; }
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
status_says() { property "$1" StatusText | grep -q "$2"; }
trap 'complain "line $LINENO"' ERR

step "install: nothing is enabled, nothing runs"
dpkg -i sonard_*-1_*.deb sonard-tools_*-1_*.deb >/dev/null
[ "$(systemctl is-enabled sonard || true)" = disabled ]
! systemctl is-active --quiet sonard
sonard --check-config /etc/sonard/sonard.yaml >/dev/null
[ "$(stat -c %a /etc/sonard/keys)" = 700 ]

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
[ -d /var/lib/private/sonard ] && [ -d /run/sonard ]
grep -q "^CapEff:\s*0000000000000000$" "/proc/$pid/status"
# Where systemd itself may not raise limits (CAP_SYS_RESOURCE, bit 24), as in some containers, it goes without.
if (($(sed -n 's/^CapEff:[^0-9a-f]*/0x/p' /proc/1/status) >> 24 & 1)); then
    grep -q "^Max realtime priority *20 " "/proc/$pid/limits"
    grep -q "^Max locked memory *unlimited " "/proc/$pid/limits"
else
    step "(limits are not tried: this machine's systemd may not raise any)"
fi

step "the journal has fields"
journalctl --sync
journalctl -u sonard -o json | grep -q '"SONAR_WHERE":"sonard"'
journalctl -u sonard -o json | grep '"SONAR_WHERE":"sonard"' | grep -q '"PRIORITY":"6"'

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

step "sonarctl reaches the service"
sonarctl version >/dev/null
sonarctl set sound_speed_mps 1495 >/dev/null
[ "$(sonarctl get sound_speed_mps)" = 1495 ]

step "a process that stands still is killed by the watchdog and started again"
mkdir -p /run/systemd/system/sonard.service.d
printf '[Service]\nWatchdogSec=3\n' >/run/systemd/system/sonard.service.d/watchdog.conf
systemctl daemon-reload
systemctl restart sonard
pid=$(property sonard MainPID)
kill -STOP "$pid"
replaced() { is_active sonard && [ "$(property sonard MainPID)" != "$pid" ]; }
await 30 replaced
[ "$(property sonard NRestarts)" -ge 1 ]
journalctl -u sonard | grep -qi watchdog
rm -r /run/systemd/system/sonard.service.d
systemctl daemon-reload

step "a wrong configuration is not tried again"
cp /etc/sonard/sonard.yaml good.yaml
echo 'nonsense: 1' >>/etc/sonard/sonard.yaml
! systemctl restart sonard
sleep 3
[ "$(property sonard ActiveState)" = failed ] && [ "$(property sonard ExecMainStatus)" = 2 ]
cp good.yaml /etc/sonard/sonard.yaml
systemctl restart sonard

step "several arrays on one node: each has its unit, its folders and its ports"
sed -e 's/:5555/:5565/; s/:5556/:5566/; s/name: array-1/name: bow/' good.yaml >/etc/sonard/bow.yaml
systemctl start sonard@bow
is_active sonard@bow && is_active sonard
[ -d /run/sonard-bow ] && [ -d /run/sonard ]
sonar-watch --config /etc/sonard/bow.yaml --topic status --count 1 --timeout 5 >/dev/null

step "training as the service's user, into its folder"
systemctl stop sonard
timeout 100 systemd-run --quiet --wait --pipe -p DynamicUser=yes -p User=sonard -p StateDirectory=sonard \
    sonard --train /etc/sonard/sonard.yaml >/debs/training
[ -n "$(ls -A /var/lib/sonard/)" ]
systemctl start sonard
await 10 status_says sonard '^waiting'

step "upgrade: what runs is restarted with the new program, what is edited is kept"
pid=$(property sonard MainPID)
dpkg -i --force-confold sonard_*-2_*.deb sonard-tools_*-2_*.deb >/dev/null
await 10 is_active sonard && await 10 is_active sonard@bow
[ "$(property sonard MainPID)" != "$pid" ]
grep -q '^sound_speed_mps: 1490' /etc/sonard/sonard.yaml
systemctl stop sonard
dpkg -i --force-confold sonard_*-2_*.deb >/dev/null
! systemctl is-active --quiet sonard # a stopped one stays stopped

step "stop: in good order"
systemctl start sonard && systemctl stop sonard
[ "$(property sonard Result)" = success ] && [ "$(property sonard ExecMainStatus)" = 0 ]
[ ! -e /run/sonard ]

step "remove: what runs is stopped, state and configuration stay"
systemctl start sonard
dpkg -r sonard sonard-tools >/dev/null
! systemctl is-active --quiet sonard && ! systemctl is-active --quiet sonard@bow
[ ! -e /usr/bin/sonard ] && [ -e /etc/sonard/sonard.yaml ] && [ -d /var/lib/private/sonard ]

step "purge: the state goes, keys and the owner's own configurations stay"
dpkg -P sonard >/dev/null 2>&1
[ ! -e /var/lib/private/sonard ] && [ ! -L /var/lib/sonard ] && [ ! -e /etc/sonard/sonard.yaml ]
[ -e /etc/sonard/bow.yaml ] && [ -e /etc/sonard/keys/probe ]
echo passed
