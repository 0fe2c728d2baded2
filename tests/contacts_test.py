#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""sonar-watch --rep and --ttm: the lines and sentences of a publisher that lies, restarts and counts beyond 99, and of a
real daemon, read by a parser and a checksum of this test's own. contacts_test.py SOURCE BINARIES [NAME...]. Exit 77:
skipped."""
import datetime
import json
import math
import pathlib
import socket
import struct
import subprocess
import sys
import tempfile
import time

try:
    import zmq
except ImportError as missing:
    print(f"skipped: the test needs python3-zmq ({missing})")
    sys.exit(77)

source, binaries = (pathlib.Path(name).resolve() for name in sys.argv[1:3])
PATIENCE_S = 120
UTC_NS = 1769861002555123456  # 2026-01-31 12:03:22.555123456
LAST = 999999  # the track whose line says that all before it was read


# ---- what is expected, by the sources: NMEA 0183 and Debrief's ImportSensor2

def sentence(number, distance_m, deg, reference, track, status, utc="120322.56"):
    body = f"SSTTM,{number:02d},{distance_m / 1852:.4f},{deg:.2f},{reference},,,,,,N,track_{track},{status},,{utc},A"
    total = 0
    for letter in body.encode():
        total ^= letter
    return f"${body}*{total:02X}\r\n"


def parsed(datagram):
    """The fields of a sentence of which everything is checked that does not depend on the track."""
    text = datagram.decode("ascii")
    assert text.startswith("$") and text.endswith("\r\n") and text.count("$") == text.count("*") == 1, text
    assert len(text) <= 82, text
    body, checksum = text[1:-2].split("*")
    total = 0
    for letter in body:
        total ^= ord(letter)
    assert len(checksum) == 2 and int(checksum, 16) == total, text
    kind, *fields = body.split(",")
    assert kind == "SSTTM" and len(fields) == 15, text
    number, distance, bearing, reference, speed, course, course_reference, cpa, tcpa, units, name, status, own, utc, how = fields
    assert len(number) == 2 and number.isdigit() and speed == course == course_reference == cpa == tcpa == own == "", text
    assert float(distance) > 0 and 0 <= float(bearing) < 360 and reference in "TR" and status in "TLQ", text
    assert units == "N" and how == "A" and name.startswith("track_") and len(utc) in (0, 9), text
    return int(number), float(distance), float(bearing), reference, int(name[6:]), status, utc


def read_line(line):
    """Words as Debrief splits them: at blanks, a name in quotation marks is one."""
    words, rest = [], line.split(" // ")[0]
    while rest:
        word, _, rest = (rest[1:].partition('"')[0], "", rest[1:].partition('"')[2].lstrip()) if rest[0] == '"' else rest.partition(" ")
        words.append(word)
    kind, date, time_, host, symbology, position, bearing, mirror, frequency, range_, sensor, label = words
    assert (kind, position, range_) == (";SENSOR2:", "NULL", "NULL"), line
    assert frequency == "NULL" or float(frequency) > 0, line
    assert len(symbology) == 2 and symbology[0] == "@" and "A" <= symbology[1] <= "K", line
    when = datetime.datetime.strptime(date + time_, "%Y%m%d%H%M%S.%f")
    return when, host, float(bearing), None if mirror == "NULL" else float(mirror), sensor, label


# ---- a publisher

def track(number, deg=102.5, state="confirmed", contact=0, **more):
    return {"number": number, "state": state, "existence": 1, "bearings": [{"bearing_deg": deg, "bearing_sigma_deg": 0.25}],
            "contact": contact, **more}


def row(range_m=316.6, contact=0, **more):
    return {"source": "cbf", "az_deg": 30, "range_m": range_m, "range_unresolved": False, "contact": contact, **more}


class Publisher:
    def __init__(self, endpoint, run="one"):
        self.socket = zmq.Context.instance().socket(zmq.XPUB)
        self.socket.set(zmq.XPUB_NODROP, 1)
        self.socket.set(zmq.SNDHWM, 10000)
        self.socket.bind(endpoint)
        self.window, self.run = 0, run

    def await_subscriptions(self, *topics):
        got = set()
        while got != {b"\1" + topic.encode() for topic in topics}:
            assert self.socket.poll(1000 * PATIENCE_S), got
            got |= {said for said in (self.socket.recv(),) if said[0] == 1}

    def send(self, topic, header, body=b""):
        self.socket.send_multipart([topic.encode(), header if isinstance(header, bytes) else json.dumps(header).encode(), body])

    def head(self, topic, **more):
        head = {"schema": "sonard/1", "topic": topic, "array": "a line", "run": self.run, "seq": self.window, "window": self.window,
                "utc_ns": UTC_NS - 5, "utc_middle_ns": UTC_NS, "bearing_reference": "true", "flags": [], "shape": [0], "axes": []}
        return {**head, **more}

    def window_of(self, tracks, rows=None, of=None, **more):
        """A window: detections, if there are rows, and tracks, whose headers have `of` and `more` beside."""
        self.window += 1
        if rows is not None:
            self.send("detections", self.head("detections", **{"range_reference": "radial", "detections": rows, **(of or {})}))
        self.send("tracks", self.head("tracks", **{"tracks": tracks, **more}))

    def close(self):
        self.socket.close(linger=0)


class Watch:
    """sonar-watch with a receiver of its sentences."""

    def __init__(self, folder, endpoint, *options, ttm=True):
        self.rep, self.errors = folder / "tracks.rep", folder / "errors"
        self.receiver = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.receiver.bind(("127.0.0.1", 0))
        self.receiver.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
        to = ["--ttm", f"udp://127.0.0.1:{self.receiver.getsockname()[1]}"] if ttm else []
        self.process = subprocess.Popen([binaries / "sonar-watch", "--endpoint", endpoint, "--rep", self.rep, *to, *map(str, options)],
                                        stdout=subprocess.PIPE, stderr=self.errors.open("w"))

    def sentences(self):
        """All that were sent until now: those of a window are sent before its lines are written."""
        found = []
        self.receiver.setblocking(False)
        while True:
            try:
                found.append(self.receiver.recv(4096))
            except BlockingIOError:
                return found

    def lines(self):
        return self.rep.read_text().rpartition("\n")[0].splitlines() if self.rep.exists() else []

    def until(self, true, what):
        end = time.monotonic() + PATIENCE_S
        while not true():
            assert self.process.poll() is None and time.monotonic() < end, (what, self.process.poll(), self.errors.read_text(), self.lines()[-3:])
            time.sleep(0.01)

    def flush(self, publisher):
        """What came of all that was published: the sentences since the last call, and the lines."""
        def ends():
            return sum(f"track_{LAST} " in line for line in self.lines())
        before = ends()
        publisher.window_of([track(LAST, contact=5)])
        self.until(lambda: ends() > before, "the last line")
        return self.sentences(), [line for line in self.lines() if f"track_{LAST}" not in line]

    def end(self):
        self.process.terminate()
        out, _ = self.process.communicate(timeout=PATIENCE_S)
        assert self.process.returncode == 0 and out == b"", (self.process.returncode, out)
        self.receiver.close()
        return self.errors.read_text()


def joined(folder, *options, **more):
    endpoint = f"ipc://{folder}/out"
    publisher, watch = Publisher(endpoint), Watch(folder, endpoint, *options, **more)
    publisher.await_subscriptions("tracks", "detections")
    return publisher, watch


def expect_sentences(got, *wanted):
    for datagram in got:
        parsed(datagram)
    assert [datagram.decode() for datagram in got] == list(wanted), (got, wanted)


# ---- the tests

def try_whole(folder):
    """The life of a track, letter by letter."""
    publisher, watch = joined(folder)
    publisher.window_of([track(7, state="tentative")], [row()])
    publisher.window_of([track(7, tones_hz=[50.123, 700])], [row(range_m=300)])
    publisher.window_of([track(7, 103, contact=None)], [row()])
    publisher.window_of([track(7, 104, state="coasting")], [row(range_m=290)])
    publisher.window_of([track(7, 105, state="lost", contact=None)], [])
    got, lines = watch.flush(publisher)
    assert got[0] == b"$SSTTM,07,0.1710,102.50,T,,,,,,N,track_7,Q,,120322.56,A*47\r\n", got[0]
    expect_sentences(got, sentence(7, 316.6, 102.5, "T", 7, "Q"), sentence(7, 300, 102.5, "T", 7, "T"),
                     sentence(7, 290, 104, "T", 7, "T"), sentence(7, 290, 104, "T", 7, "L"))
    assert lines == [';SENSOR2: 20260131 120322.555 "a line" @H NULL 102.500 NULL 50.12 NULL track_7 7 // sigma 0.250 deg'], lines
    when, host, deg, mirror, sensor, label = read_line(lines[0])
    assert abs((when - datetime.datetime(1970, 1, 1)).total_seconds() - UTC_NS / 1e9) <= 0.0005001 and host == "a line"
    assert (deg, mirror, sensor, label) == (102.5, None, "track_7", "7")
    assert watch.end().count("waiting") == 0
    publisher.close()


def try_ranges(folder):
    """Only what has a range; a range that is wrong, of another window or run, or not in metres from the array is none."""
    publisher, watch = joined(folder)
    for rows in ([], [row(contact=1)], [row(range_m=None)], [row(range_unresolved=True)], [row(range_unresolved=None)], [row(range_m="300")],
                 [row(range_m=0)], [row(range_m=-300)], [row(range_m=1e300)], [row(range_m=1.1e7)], [{"contact": 0}], [None], ["x"], None):
        publisher.window_of([track(1)], rows)
    for of in ({"range_reference": None}, {"range_reference": "slant"}, {"window": 1}, {"window": None}, {"run": "two"}, {"run": None},
               {"detections": None}, {"detections": "x"}, {"detections": {"a": 1}}):
        publisher.window_of([track(1)], [row()], of)
    expect_sentences(watch.flush(publisher)[0])
    publisher.window_of([track(1)], [row(contact=1, range_m=9), row(range_m=None, source="mvdr"), row()])
    publisher.window_of([track(1)], [row(range_m=100)], {"range_reference": "abeam"})  # at 30 degrees: 200 m
    publisher.window_of([track(1)], [row(range_m=100, az_deg=0)], {"range_reference": "abeam"})
    publisher.window_of([track(1)], [row(range_m=100, az_deg=None)], {"range_reference": "abeam"})
    publisher.window_of([track(1)], [row(range_m=1e7)])
    got, lines = watch.flush(publisher)
    expect_sentences(got, sentence(1, 316.6, 102.5, "T", 1, "T"), sentence(1, 200, 102.5, "T", 1, "T"), sentence(1, 1e7, 102.5, "T", 1, "T"),
                     sentence(1, 1e7, 102.5, "T", 1, "L"))
    assert len(lines) == 28 and len(set(lines)) == 1, "lines need no range"
    watch.end()
    publisher.close()


def try_bearings(folder):
    """True, from the bow, neither; of two sides; null, missing and over the circle."""
    config = folder / "array.yaml"
    config.write_text(f"""schema: 1
array: {{id: 1, name: ring, geometry: {{circle: {{sensors: 8, radius_m: 1}}}}}}
sound_speed_mps: 1500
fs_hz: 4000
ingest: {{endpoints: ["ipc://{folder}/in"]}}
cbf: {{band_hz: [400, 950]}}
navigation: {{nmea: "udp://127.0.0.1:10110", heading_offset_deg: 300}}
output: {{endpoint: "ipc://{folder}/out"}}
""")
    publisher, watch = joined(folder, "--config", config)
    for deg, said in ((359.996, 0), (-90, 270), (720.25, 0.25)):
        publisher.window_of([track(1, deg)], [row()])
    publisher.window_of([track(1, 100)], [row()], bearing_reference="array")
    for reference in (None, "", "magnetic", 5):
        publisher.window_of([track(1)], [row()], bearing_reference=reference)
    for bearings in (None, [], [None], [{}], [{"bearing_deg": None}], [{"bearing_deg": "1"}], {"bearing_deg": 1}, 7):
        publisher.window_of([track(1, bearings=bearings)], [row()])
    sides = [{"bearing_deg": 102.5, "bearing_sigma_deg": 0.25}, {"bearing_deg": 317.5, "bearing_sigma_deg": None}]
    publisher.window_of([track(1, bearings=sides)], [row()])
    publisher.window_of([track(1, bearings=sides[::-1])], [row()])
    got, lines = watch.flush(publisher)
    expect_sentences(got, sentence(1, 316.6, 0, "T", 1, "T"), sentence(1, 316.6, 270, "T", 1, "T"), sentence(1, 316.6, 0.25, "T", 1, "T"),
                     sentence(1, 316.6, 40, "R", 1, "T"), sentence(1, 316.6, 40, "R", 1, "L"))
    assert [read_line(line)[2:4] for line in lines] == [(359.996, None), (270, None), (0.25, None), (102.5, 317.5), (317.5, 102.5)], lines
    assert lines[-1].endswith("// sigma unknown") and lines[-2].endswith("// sigma 0.250 deg"), lines
    said = watch.end()
    assert said.count("track 1 has a range, but its side of the line is open") == 1, said
    publisher.close()


def try_numbers(folder):
    """Two digits for any number, and never one for two tracks."""
    publisher, watch = joined(folder)
    publisher.window_of([track(3), track(103), track(2**53)], [row()])
    publisher.window_of([track(103), track(2**53), track(3, state="lost", contact=None)], [row()])
    publisher.window_of([track(103), track(2**53), track(203)], [row()])
    publisher.window_of([], [])
    for number in (None, -1, 1.5, 1e300, 2**53 + 2, "7", [7], True):
        publisher.window_of([track(number)], [row()])
    publisher.window_of([None, "x", 5, [], {}, {"state": "confirmed"}, track(1, state="sunk"), track(2, state=None), track(4, contact="0")], [row()])
    got, lines = watch.flush(publisher)

    def of(number, name, status="T"):
        return sentence(number, 316.6, 102.5, "T", name, status)
    expect_sentences(got, of(3, 3), of(4, 103), of(92, 2**53), of(4, 103), of(92, 2**53), of(3, 3, "L"), of(4, 103), of(92, 2**53), of(3, 203),
                     of(3, 203, "L"), of(4, 103, "L"), of(92, 2**53, "L"))
    assert [read_line(line)[4] for line in lines] == ["track_3", "track_103", f"track_{2**53}", "track_103", f"track_{2**53}", "track_103",
                                                      f"track_{2**53}", "track_203"], lines
    publisher.window_of([track(n) for n in range(1050, 1170)], [row()])
    publisher.window_of([track(n) for n in range(1100, 1170)], [row()])
    got, _ = watch.flush(publisher)
    first, ends, second, last = got[:100], got[100:150], got[150:220], got[220:]
    assert [parsed(d)[0] for d in first] == [n % 100 for n in range(1050, 1150)], "the last 20 find no number free"
    assert sorted(parsed(d)[4] for d in ends) == list(range(1050, 1100)) and {parsed(d)[5] for d in ends} == {"L"}
    assert len({parsed(d)[0] for d in second}) == 70 and [parsed(d)[4] for d in second] == list(range(1100, 1170))
    assert len(last) == 70 and {parsed(d)[5] for d in last} == {"L"}
    watch.end()
    publisher.close()


def try_times(folder):
    """Without UTC a sentence has none and there is no line; rounding goes over midnight."""
    publisher, watch = joined(folder)
    for utc_ns in (None, 0, -5, "now", 1769903999995000000):
        publisher.window_of([track(1)], [row()], utc_middle_ns=utc_ns)
    publisher.window_of([track(1)], [row()], utc_middle_ns=1769903999999600000)
    got, lines = watch.flush(publisher)
    assert [parsed(d)[6] for d in got] == ["", "", "", "", "000000.00", "000000.00", "000000.00"], got
    assert [line[10:29] for line in lines] == ["20260131 235959.995", "20260201 000000.000"], lines
    watch.end()
    publisher.close()


def try_lies(folder):
    """What is no message of a daemon: nothing comes of it, and what comes after it is read."""
    publisher, watch = joined(folder)
    good = json.dumps(publisher.head("tracks", tracks=[track(1)])).encode()
    for header in (b"", b"{", b"null", b"[]", b"\xff\xfe", good[:-9], b'{"topic":"tracks","tracks":' + b"[" * 5000, good.replace(b"sonard/1", b"sonard/2"),
                   b"\0" + good):
        publisher.send("tracks", header)
        publisher.send("detections", header.replace(b"tracks", b"detections"))
    publisher.socket.send_multipart([b"tracks", good])
    publisher.socket.send_multipart([b"tracks", good, b"", b""])
    publisher.send("tracks", publisher.head("tracks"))
    publisher.send("tracks", publisher.head("tracks", tracks={"a": track(1), "b": 5}))
    publisher.send("tracks", publisher.head("tracks", array='a\n"b\t\x07', tracks=[track(1)]))
    publisher.send("tracks", publisher.head("tracks", array=None, tracks=[track(2)]))
    got, lines = watch.flush(publisher)
    expect_sentences(got)
    names = [read_line(line)[1] for line in lines]
    assert [name for name in names if name != "a line"] == ["a__b__", ""] and len(lines) == 3, lines
    watch.end()
    publisher.close()


def try_restart(folder):
    """The file goes on over restarts of both; targets of the run before are lost; a cut-off line stays one."""
    endpoint = f"ipc://{folder}/out"
    (folder / "tracks.rep").write_text(";SENSOR2: 2026013")
    watch = Watch(folder, endpoint)
    watch.until(lambda: f"waiting for sonard at {endpoint}" in watch.errors.read_text(), "says what it waits for")
    publisher = Publisher(endpoint)
    publisher.await_subscriptions("tracks", "detections")
    publisher.window_of([track(1), track(2, contact=1)], [row(), row(contact=1)])
    publisher.window_of([track(1)], [row()])
    got, lines = watch.flush(publisher)
    before = [sentence(1, 316.6, 102.5, "T", 1, "T"), sentence(2, 316.6, 102.5, "T", 2, "T"), sentence(2, 316.6, 102.5, "T", 2, "L"),
              sentence(1, 316.6, 102.5, "T", 1, "T"), sentence(1, 316.6, 102.5, "T", 1, "L")]
    expect_sentences(got, *before)
    assert lines[0] == ";SENSOR2: 2026013" and len(lines) == 4 and all(read_line(line) for line in lines[1:]), lines
    publisher.window_of([track(1)], [row()])
    waits = watch.errors.read_text().count("waiting")
    watch.until(lambda: len(watch.lines()) == 6, "a line")
    publisher.close()
    watch.until(lambda: watch.errors.read_text().count("waiting") > waits, "says that the daemon is gone")
    publisher = Publisher(endpoint, run="two")
    publisher.await_subscriptions("tracks", "detections")
    publisher.window_of([track(1)], [row(range_m=50)])
    got, lines = watch.flush(publisher)
    expect_sentences(got, sentence(1, 316.6, 102.5, "T", 1, "T"), sentence(1, 316.6, 102.5, "T", 1, "L"), sentence(1, 50, 102.5, "T", 1, "T"),
                     sentence(1, 50, 102.5, "T", 1, "L"))
    watch.end()
    kept = watch.rep.read_text()
    again = Watch(folder, endpoint, "--count", "1", ttm=False)
    publisher.await_subscriptions("tracks")
    publisher.window_of([track(8)])
    assert again.process.wait(PATIENCE_S) == 0
    now = again.rep.read_text()
    assert now.startswith(kept) and now[len(kept):].count("\n") == 1 and "track_8 8" in now[len(kept):], now
    publisher.close()


def try_mistakes(folder):
    """A full disk ends the program; a file or an address that cannot be, before it waits."""
    endpoint = f"ipc://{folder}/out"
    publisher = Publisher(endpoint)
    full = subprocess.Popen([binaries / "sonar-watch", "-e", endpoint, "--rep", "/dev/full"], stderr=subprocess.PIPE, text=True)
    publisher.await_subscriptions("tracks")
    publisher.window_of([track(1)])
    said = full.communicate(timeout=PATIENCE_S)[1]
    assert full.returncode == 1 and "/dev/full: cannot write: No space left" in said, (full.returncode, said)
    publisher.close()
    for words, *options in ((["/no/such/file", "No such file"], "--rep", "/no/such/file"), (["udp://ADDRESS:PORT"], "--ttm", "localhost:10110"),
                            (["udp://ADDRESS:PORT"], "--ttm", "udp://127.0.0.1:0"), (["--topic"], "--rep", folder / "a", "--topic", "tracks"),
                            (["--json"], "--ttm", "udp://127.0.0.1:9", "--json")):
        done = subprocess.run([binaries / "sonar-watch", "-e", endpoint, *map(str, options)], capture_output=True, text=True, timeout=PATIENCE_S)
        assert done.returncode == 2 and all(word in done.stderr for word in words), (options, done)
    assert not (folder / "a").exists()


def kept_messages(path):
    """(topic, header, body) of a .sonar-spectra file."""
    data, at = path.read_bytes(), 0
    while at < len(data):
        *_, head, topic, header, body = struct.unpack_from("<4sHHIIQ", data, at)
        parts = []
        at += head
        for size in (topic, header, body):
            parts.append(data[at:at + size])
            at += size
        yield parts


def ring(folder):
    """A boat 30 m from a ring of 20 m, at a true bearing of 20 + 70 degrees, and a ship far away at 220."""
    config, scene = folder / "ring.yaml", folder / "scene.yaml"
    config.write_text(f"""schema: 1
array: {{id: 1, name: ring, geometry: {{circle: {{sensors: 64, radius_m: 10}}}}, heading_deg: 20, gain_db: 0}}
sound_speed_mps: 1500
fs_hz: 2000
ingest: {{endpoints: ["ipc://{folder}/in"], overload: block}}
dft: {{length: 1024, hop: 1024}}
cbf: {{band_hz: [300, 700], ranges_m: [15, 20, 25, 32, 40, 60, 100]}}
mvdr: {{enabled: false}}
output: {{endpoint: "ipc://{folder}/out"}}
runtime: {{threads: 1, backend: cpu}}
""")
    scene.write_text("""schema: 1
ambient: {psd_db: 50}
sources:
  - name: boat
    near: {az_deg: 70, range_m: 30}
    broadband: {spectrum: white, band_hz: [100, 900], psd_db: 70}
  - name: ship
    far: {az_deg: 200}
    broadband: {spectrum: white, band_hz: [100, 900], psd_db: 65}
""")
    return config, scene


def check_boat(got, lines):
    """The sentences are of the boat, the lines of both."""
    boats = set()
    for datagram in got:
        number, miles, bearing, reference, name, _, utc = parsed(datagram)
        assert abs(miles * 1852 - 30) < 3 and abs(bearing - 90) < 3 and reference == "T" and len(utc) == 9, datagram
        assert number == name % 100
        boats.add(name)
    far = [read_line(line) for line in lines if int(read_line(line)[5]) not in boats]
    assert len(boats) == 1 and far and all(abs(deg - 220) < 3 for _, _, deg, *_ in far), (boats, far[:3])
    return far[-1][0].replace(tzinfo=datetime.timezone.utc).timestamp()


def run(folder, program, *arguments):
    done = subprocess.run([binaries / program, *map(str, arguments)], cwd=folder, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done


def try_process(folder):
    """Of the same messages, the file is sonar-process's own, to the byte."""
    config, scene = ring(folder)
    run(folder, "sonar-sim", "--config", config, "--scene", scene, "--duration", 20, "--utc", "2026-01-31T23:59:50Z", "--file", "sea.f32")
    run(folder, "sonar-process", "sea.f32", "-c", config, "-o", "results", "--messages", "--no-pictures")
    publisher, watch = joined(folder)
    for parts in kept_messages(folder / "results/messages.sonar-spectra"):
        if parts[0] in (b"tracks", b"detections"):
            publisher.socket.send_multipart(parts)
    got, lines = watch.flush(publisher)
    own = (folder / "results/tracks.rep").read_text().splitlines()
    assert len(own) > 20 and lines == own, (len(own), len(lines))
    assert datetime.datetime(2026, 2, 1, 0, 0, 5) < datetime.datetime.utcfromtimestamp(check_boat(got, lines)) < datetime.datetime(2026, 2, 1, 0, 0, 10)
    assert parsed(got[0])[5] == "Q" and parsed(got[-1])[5] == "L" and "T" in {parsed(d)[5] for d in got}
    watch.end()
    publisher.close()


def try_daemon(folder):
    """The same of a daemon that runs, over its own socket."""
    config, scene = ring(folder)
    processes = [subprocess.Popen([binaries / "sonard", config], stderr=subprocess.DEVNULL)]
    watch, got = Watch(folder, f"ipc://{folder}/out"), []

    def enough():
        got.extend(watch.sentences())
        return len({read_line(line)[4] for line in watch.lines()}) >= 2 and sum(parsed(d)[5] == "T" for d in got) > 5
    try:
        processes.append(subprocess.Popen([binaries / "sonar-sim", "--config", config, "--scene", scene, "--duration", "0"],
                                          stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
        watch.until(enough, "sentences and lines of a daemon")
    finally:
        for process in reversed(processes):
            process.terminate()
            process.wait()
    watch.end()
    assert math.isclose(check_boat(got, watch.lines()), time.time(), abs_tol=3600)


for name in sys.argv[3:] or [name[4:] for name in dir() if name.startswith("try_")]:
    with tempfile.TemporaryDirectory(prefix="sonar-contacts-") as place:
        globals()[f"try_{name}"](pathlib.Path(place))
        print(f"{name}: as it should be", flush=True)
