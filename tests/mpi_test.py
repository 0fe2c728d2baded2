#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""sonard under mpirun: one rank publishes the same bytes as a process without MPI.
usage: mpi_test.py BIN [--part K/N | TEST...]   the K-th of N parts of the tests, or those that are named"""
import atexit
import json
import os
import pathlib
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time

SKIPPED = 77
try:
    import numpy as np
    import zmq
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(SKIPPED)

binaries = pathlib.Path(sys.argv[1])

PATIENCE_S = 300  # no step takes as long, unless it hangs
CHANNELS, FS_HZ, FRAME = 24, 2000, 250
WINDOW, HOP = 2000, 1000
TOPICS = ("cbf.azimuth", "cbf.nearfield", "cbf.lofar", "mvdr.azimuth", "mvdr.spectrum", "mvdr.nearfield",
          "mvdr.eigenvalues", "music.azimuth", "element.psd",
          "element.missing", "cbf.normalised", "mvdr.normalised", "cbf.sped", "beam.audio", "detections", "tracks",
          "status")
RANKS = [int(r) for r in os.environ.get("SONAR_MPI_RANKS", "2 3").split()]
DIFFERS = ("run", "latency_us", "config_version")  # between any two runs: each has its own folder of sockets
CONFIG = """
schema: 1
array: {{id: 1, name: test, {array}geometry: {{line: {{sensors: {channels}, spacing_m: 0.75}}}}}}
sound_speed_mps: 1500
fs_hz: {fs}
ingest: {{endpoints: ["{sink}{rank}"], overload: block, restart_after_ms: {restart}, max_skew_ms: {skew},
         {ingest}max_missing_share: {share}}}
dft: {{length: {window}, hop: {hop}}}
cbf: {{band_hz: [300, 600], ranges_m: [50, 200]}}
lofar: {{band_hz: [100, 700]}}
beam: {{az_deg: [110, 62.5], bearing_deg: [70], track: [1]}}
mvdr: {{enabled: true, band_hz: [300, 600], length: 500, snapshots: 8, nearfield: true,
       source_count: mdl, music: auto}}
output: {{endpoint: "ipc://{folder}/out", high_water_mark: 1000, queue_results: 16}}
control: {{endpoint: "ipc://{folder}/control"}}
{security}runtime: {{{runtime}backend: cpu, threads: 1, log_level: info}}
{more}
"""


def sea(samples, channels=CHANNELS, seed=1):
    """Noise, two tones and a broadband ship, as received by a line: f32 [sample][channel]."""
    rng = np.random.default_rng(seed)
    t = np.arange(samples) / FS_HZ
    x = (np.arange(channels) - (channels - 1) / 2) * 0.75
    out = 0.1 * rng.standard_normal((samples, channels))
    frequency = np.fft.rfftfreq(samples, 1 / FS_HZ)
    ship = np.fft.rfft(rng.standard_normal(samples))
    tau = x * np.cos(np.radians(70)) / 1500
    out += np.fft.irfft(ship[:, None] * np.exp(2j * np.pi * frequency[:, None] * tau), samples, axis=0)
    for hz, az_deg, level in ((400.4, 110, 3), (523.7, 40, 1)):
        out += level * np.cos(2 * np.pi * hz * (t[:, None] + x * np.cos(np.radians(az_deg)) / 1500))
    return out.astype("<f4")


PATIENT = """
cluster: {max_skew_ms: 20000}
"""  # waits for samples on a machine that may be busy
SKEW = 10000  # ingest waits less, so that a rank's own gaps make no rank absent
WITH_GAPS = 1000  # each gap costs this time, and later windows wait for it
LOSSY = """
cluster: {max_skew_ms: 400}
"""  # well below restart_after_ms, after which ingest offers incomplete windows


def environment(folder):
    """Of mpirun. Otherwise all runs of a user share a folder in /tmp, and one that begins while another removes it fails."""
    return os.environ | {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "TMPDIR": str(folder)}


class Daemon:
    """sonard, alone (ranks None) or under mpirun, with a subscriber and the log."""
    running = []

    def __init__(self, ranks, topics=TOPICS, more=PATIENT, split=True, share=0.1, skew=SKEW, array="", ingest="", sink=None,
                 security="", runtime="", bind_to="none"):
        self.ranks, self.split, self.folder = ranks, split and ranks, pathlib.Path(tempfile.mkdtemp(prefix="mpi_test."))
        self.yaml, self.sink = self.folder / "array.yaml", sink or f"ipc://{self.folder}/in"
        self.yaml.write_text(CONFIG.format(channels=CHANNELS, fs=FS_HZ, folder=self.folder, window=WINDOW,
                                           sink=self.sink, security=security, runtime=runtime,
                                           hop=HOP, more=more, restart=1600 if more == LOSSY else 20000,
                                           skew=250 if more == LOSSY else skew, share=share, array=array, ingest=ingest.replace("FOLDER", str(self.folder)), rank="{rank}" if split and ranks else ""))
        command = [binaries / "sonard", self.yaml]
        if ranks:
            command = ["mpirun", "--oversubscribe", "--bind-to", bind_to, "-n", str(ranks), *command]
        self.log = open(self.folder / "log", "w+")
        (self.folder / "mpi").mkdir()
        self.process = subprocess.Popen(command, stderr=self.log, stdout=self.log, env=environment(self.folder / "mpi"))
        self.running.append(self)
        self.context = zmq.Context()
        self.sub = self.context.socket(zmq.SUB)
        self.sub.setsockopt(zmq.RCVHWM, 0)
        self.sub.connect(f"ipc://{self.folder}/out")
        for topic in topics:
            self.sub.subscribe(topic)
        self.push, self.key, self.messages, self.status = {}, None, [], None
        self.topics = set(topics) - {"status"}
        self.wait_for("running", ranks or 1)
        while not self.status or self.status["output"]["subscriptions"] < len(topics):
            assert self.process.poll() is None, self.text()
            self.receive(50)

    def text(self):
        return (self.folder / "log").read_text()

    def wait_for(self, words, times=1, seconds=PATIENCE_S):
        until = time.monotonic() + seconds
        while self.text().count(words) < times:
            assert self.process.poll() is None, self.text()
            assert time.monotonic() < until, f"no '{words}' in the log:\n{self.text()}"
            time.sleep(0.02)

    def pids(self):
        """Process ids of the ranks, by rank."""
        found = {}
        for proc in pathlib.Path("/proc").iterdir():
            try:
                if (proc / "cmdline").read_bytes().split(b"\0")[1] == str(self.yaml).encode():
                    variables = dict(v.split(b"=", 1) for v in (proc / "environ").read_bytes().split(b"\0")
                                     if b"=" in v)
                    found[int(variables.get(b"OMPI_COMM_WORLD_RANK", b"0"))] = int(proc.name)
            except (OSError, IndexError):
                pass
        return found

    def socket(self, rank):
        if rank not in self.push:
            push = self.push[rank] = self.context.socket(zmq.PUSH)
            push.immediate, push.sndhwm = True, 4
            push.linger = 0
            if self.key:
                push.curve_publickey, push.curve_secretkey, push.curve_serverkey = self.key
            push.connect(f"{self.sink}{rank}")
            assert push.poll(20000, zmq.POLLOUT), self.text()
        return self.push[rank]

    def send(self, samples, first_channel, rank, begin=0, epoch=1):
        """Sends one frame; waits for room, and receives meanwhile."""
        head = struct.pack("<4sHHIIIIBBHIQQqd", b"SNRF", 1, 64, 1, first_channel, samples.shape[1],
                           samples.shape[0], 4, 0, 0, epoch, begin // FRAME, begin,
                           1_700_000_000_000_000_000 + begin * 10**9 // FS_HZ, FS_HZ)
        push = self.socket(rank)
        while not push.poll(20, zmq.POLLOUT):
            self.receive()
            assert self.process.poll() is None, self.text()
        push.send_multipart([head, samples.tobytes()])
        self.receive()

    def receive(self, wait_ms=0):
        while self.sub.poll(wait_ms):
            topic, head, body = self.sub.recv_multipart()
            head = json.loads(head)
            if topic == b"status":
                self.status = head
            else:
                self.messages.append((topic.decode(), head, body))

    def receive_until(self, windows, seconds=PATIENCE_S):
        """Messages of every topic of the window that begins at the last of these samples have come."""
        until = time.monotonic() + seconds
        last = max(windows)
        while missing := self.topics - {topic for topic, head, _ in self.messages if head["sample_index"] >= last}:
            assert time.monotonic() < until, f"no {missing} of window {last}:\n{self.text()}"
            assert self.process.poll() is None, self.text()
            self.receive(50)

    def await_frames(self, received):
        """Waits for a status with this number of frames, good and bad."""
        until = time.monotonic() + PATIENCE_S
        while self.status["frames"]["received"] < received:
            assert time.monotonic() < until and self.process.poll() is None, (received, self.status, self.text())
            self.receive(50)

    def await_status(self, count=2):
        """The last of `count` statuses that come from now on."""
        for _ in range(count):
            self.status, until = None, time.monotonic() + PATIENCE_S
            while not self.status:
                assert time.monotonic() < until and self.process.poll() is None, self.text()
                self.receive(50)
        return self.status

    def end(self):
        self.process.send_signal(signal.SIGTERM)
        try:
            code = self.process.wait(PATIENCE_S)
        finally:
            if self.process.poll() is None:
                self.process.kill()
        until = time.monotonic() + PATIENCE_S  # mpirun may end before the ranks that it has told to end
        while left := self.pids():
            assert time.monotonic() < until, f"{left} are left:\n{self.text()}"
            time.sleep(0.02)
        self.close()
        return code

    def close(self):
        self.running.remove(self)
        self.context.destroy(linger=0)
        self.log.close()
        shutil.rmtree(self.folder)


def blocks(ranks):
    """An even split, like the configuration's default."""
    bounds = [CHANNELS * r // ranks for r in range(ranks + 1)]
    return list(zip(bounds, bounds[1:]))


def feed(daemon, data, epoch=1, begin=0):
    for at in range(0, len(data), FRAME):
        for rank, (first, end) in enumerate(blocks(daemon.ranks or 1)):
            daemon.send(data[at:at + FRAME, first:end], first, rank if daemon.split else "",
                        begin + at, epoch)


def whole_run(ranks, data, **options):
    daemon = Daemon(ranks, **options)
    feed(daemon, data)
    daemon.receive_until(range(0, len(data) - WINDOW + 1, HOP))
    daemon.end()
    return {(topic, head["sample_index"]): (head, body) for topic, head, body in daemon.messages}


def db(a, b):
    """Largest difference within 60 dB of the peak; others must be no larger than that allows."""
    a, b = (np.frombuffer(x, "<f4").astype("f8") for x in (a, b))
    assert a.shape == b.shape and np.isfinite(b).all()
    high = a > a.max() * 1e-6
    assert (b[~high] <= a.max() * 2e-6).all()
    return np.abs(10 * np.log10(b[high] / a[high])).max() if high.any() else 0


def apart(a, b):
    """Largest difference of two time series, over the root mean square; they lack the same samples."""
    a, b = (np.frombuffer(x, "<f4").astype("f8") for x in (a, b))
    assert (np.isnan(a) == np.isnan(b)).all()
    there = ~np.isnan(a)
    return np.abs(a - b)[there].max() / np.sqrt((a[there] ** 2).mean()) if there.any() else 0


LEDGER_DB = {"cbf": 0.01, "mvdr": 0.05, "music": 0.001, "element": 0.0001}


def same_numbers(a, b, where):
    """The same structure, and numbers equal to rounding."""
    if isinstance(a, dict):
        assert a.keys() == b.keys(), (where, a, b)
        for key in a:
            same_numbers(a[key], b[key], f"{where}.{key}")
    elif isinstance(a, list):
        assert len(a) == len(b), (where, a, b)
        for i, (x, y) in enumerate(zip(a, b)):
            same_numbers(x, y, f"{where}[{i}]")
    elif isinstance(a, float) or isinstance(b, float):
        assert abs(a - b) <= 1e-3 * max(1, abs(a)), (where, a, b)
    else:
        assert a == b, (where, a, b)


def compare(alone, several):
    assert alone.keys() == several.keys(), alone.keys() ^ several.keys()
    worst = {}
    for (topic, sample), (head, body) in alone.items():
        other_head, other = several[topic, sample]
        kind = topic.split(".")[0]
        if topic == "element.missing":
            assert body == other, (topic, sample)
        elif topic == "beam.audio":
            assert apart(body, other) <= 1e-5, (topic, sample)
        elif kind in LEDGER_DB:
            worst[kind] = max(worst.get(kind, 0), db(body, other))
        same_numbers(without(head), without(other_head), f"{topic} at {sample}")
    for kind, most in LEDGER_DB.items():
        assert worst.get(kind, 0) <= most, worst
    assert {"cbf", "mvdr", "element"} <= worst.keys(), worst


def ranks_agree_with_one():
    """Every message of a whole run: spectra within the accuracy that is promised, headers and
    detections equal to rounding."""
    data = sea(8 * FS_HZ)
    alone = whole_run(None, data)
    assert any(len(head["detections"]) for (topic, _), (head, _) in alone.items() if topic == "detections")
    assert all(np.frombuffer(body, "<f4").max() > 10 for (topic, _), (_, body) in alone.items() if topic == "music.azimuth")
    heard = [np.frombuffer(body, "<f4").reshape(4, HOP) for (topic, _), (_, body) in sorted(alone.items()) if topic == "beam.audio"]
    assert np.abs(heard[1][0]).max() > 2 and np.isfinite(heard[-1][3]).all(), "the tone, and the first track"
    for ranks in RANKS:
        several = whole_run(ranks, data)
        compare(alone, several)
    again = whole_run(RANKS[-1], data)
    assert all(again[key][1] == body for key, (_, body) in several.items()), "timing decides"


def sums_over_sensors_add_up():
    """More sensors and fewer directions than in the other runs, and no near field: then the ranks exchange sums
    over their sensors and no transforms. One rank falls silent and comes back, which is a gap for one process; meanwhile
    the MVDR's band is one of which ranks 0 and 2 have no bin."""
    global CHANNELS, CONFIG
    kept = CHANNELS, CONFIG
    CHANNELS = 96
    CONFIG = CONFIG.replace("nearfield: true,", "scan: {{start_deg: 0, stop_deg: 180, step_deg: 6}}, cell_maximum: true,")
    topics = [t for t in TOPICS if t != "mvdr.nearfield"]
    try:
        data = sea(8 * FS_HZ, CHANNELS)
        alone = whole_run(None, data, topics=topics)
        for ranks in (2, 4, 7, 3) if RANKS != [2] else RANKS:
            several = whole_run(ranks, data, topics=topics)
            compare(alone, several)
        again = whole_run(ranks, data, topics=topics)
        assert all(again[key][1] == body for key, (_, body) in several.items()), "timing decides"
        alone, several = (Daemon(r, topics=topics, more=LOSSY, share=0.9) for r in (None, 3))
        bands = {2 * FS_HZ: "[420, 480]", 6 * FS_HZ: "[300, 600]"}
        for at in range(0, len(data), FRAME):
            gone = 3 * FS_HZ <= at < 5 * FS_HZ
            for daemon in (alone, several) if at in bands else ():
                daemon.receive_until([at - WINDOW])
                assert ctl(daemon, "set", "mvdr.band_hz", bands[at])[1] == 0
            for rank, (first, end) in enumerate(blocks(3)):
                if rank == 1 and gone:
                    continue
                several.send(data[at:at + FRAME, first:end], first, rank, at)
                alone.send(data[at:at + FRAME, first:end], first, "", at)
        for daemon in (alone, several):
            daemon.receive_until([6 * FS_HZ])
        for sample in (0, 2 * FS_HZ, 4 * FS_HZ, 6 * FS_HZ):
            for topic in ("mvdr.azimuth", "mvdr.spectrum"):
                a, b = windows_of(alone, topic)[sample], windows_of(several, topic)[sample]
                assert db(a[1], b[1]) <= LEDGER_DB["mvdr"], (topic, sample)
                assert a[0]["shape"] == b[0]["shape"], (topic, sample)
            assert b[0]["shape"][0] == (76 if sample in (0, 6 * FS_HZ) else 16), (sample, b[0])
        for daemon in (alone, several):
            daemon.end()
    finally:
        CHANNELS, CONFIG = kept


SCENE = """
schema: 1
seed: 7
digitisers: 3
frame_samples: 250
ambient: {level_db: 0}
sources:
  - {name: ship, far: {az_deg: 70}, broadband: {band_hz: [200, 800], level_db: 10}}
  - {name: tone, far: {az_deg: 110}, tones: [{hz: 400.4, level_db: 10}]}
"""
FAULTS = """
faults:
  - {kind: corrupt, digitiser: 0, frame: 9}
  - {kind: drop, digitiser: 1, frame: 12, count: 2}
  - {kind: wrong_array, digitiser: 1, frame: 20}
  - {kind: repeat, digitiser: 2, frame: 25, count: 3}
  - {kind: truncate, digitiser: 2, frame: 30}
"""


def play(daemon, tool, *more, wait=True):
    """sonar-sim or sonar-replay to the daemon; its summary."""
    (daemon.folder / "scene").write_text(SCENE + FAULTS)
    (daemon.folder / "calm").write_text(SCENE)
    process = subprocess.Popen([binaries / tool, "--config", daemon.yaml, "--rate", "4", "--wait", "--epoch", "1",
                                "--summary", daemon.folder / "sent", *more], stderr=subprocess.PIPE)
    if not wait:
        return process
    while process.poll() is None:
        daemon.receive(20)
        assert daemon.process.poll() is None, daemon.text()
    assert process.returncode == 0, process.stderr.read()
    process.stderr.close()
    return json.loads((daemon.folder / "sent").read_text())


def by_window(daemon):
    return {(topic, head["sample_index"]): (head, body) for topic, head, body in daemon.messages}


def same_bytes(got, wanted):
    assert got.keys() == wanted.keys(), got.keys() ^ wanted.keys()
    differ = [key for key, (_, body) in wanted.items() if got[key][1] != body]
    assert not differ, differ


SECONDS = 6


def simulated(ranks, scene, *more, record="", before=(), **options):
    daemon = Daemon(ranks, share=0.9, skew=SKEW if scene == "calm" else WITH_GAPS, more=PATIENT + record, **options)
    for words in before:
        text, code = ctl(daemon, *words)
        assert code == 0, text
    sent = play(daemon, "sonar-sim", "--scene", daemon.folder / scene, "--duration", str(SECONDS), "--utc", "0", *more)
    daemon.receive_until([SECONDS * FS_HZ - WINDOW])
    daemon.await_frames(sent["messages"])
    return daemon, sent


def the_simulator_feeds_ranks():
    """Each rank gets only its channels, including planned faults, and the messages equal those of
    one process."""
    alone, _ = simulated(None, "scene")
    daemon, sent = simulated(3, "scene", "--ranks", "3")
    compare(by_window(alone), by_window(daemon))
    lines = sent["ranks"]
    assert len(lines) == 3 and sum(line["frames"] for line in lines) == sent["frames"] == 3 * SECONDS * FS_HZ // FRAME
    dropped = [1, 1, 3 + 1]  # wrong frames among those sent to each rank
    assert lines[1]["kinds"]["drop"] == 2 and lines[2]["kinds"]["repeat"] == 3, lines
    for line, status, wrong in zip(lines, daemon.status["ranks"], dropped):
        assert status["frames_dropped"] == wrong, (status, line)
        assert status["frames_accepted"] == line["messages"] - wrong, (status, line)
    for d in (alone, daemon):
        d.end()


def scattered_sensors_agree_with_one():
    """No sensor of a rank is the neighbour of another one in the array's order: the sensors take channels in turn
    from each rank's block."""
    turns = "channels: [%s], " % ", ".join(str(i % 3 * (CHANNELS // 3) + i // 3) for i in range(CHANNELS))
    alone, _ = simulated(None, "calm", array=turns)
    daemon, _ = simulated(3, "calm", "--ranks", "3", array=turns)
    compare(by_window(alone), by_window(daemon))
    for d in (alone, daemon):
        d.end()


def a_recording_is_replayed_to_ranks():
    """The same samples through shared memory, from a file, and from a sender for each rank, make the
    same bytes."""
    daemon, _ = simulated(2, "calm", "--ranks", "2")
    wanted = by_window(daemon)
    daemon.end()
    daemon, sent = simulated(2, "calm", "--ranks", "2", "--shared-memory",
                             ingest='shared_memory: "ipc://FOLDER/memory{rank}", ')
    same_bytes(by_window(daemon), wanted)
    assert [(daemon.folder / f"memory{rank}").is_socket() for rank in (0, 1, 2)] == [True, True, False]
    assert [line["frames_accepted"] for line in daemon.status["ranks"]] == [line["frames"] for line in sent["ranks"]]
    daemon.end()
    daemon = Daemon(2, share=0.9)
    folder = tempfile.TemporaryDirectory(prefix="mpi_test.")
    sea = pathlib.Path(folder.name) / "sea.f32"
    play(daemon, "sonar-sim", "--scene", daemon.folder / "calm", "--duration", str(SECONDS), "--utc", "0", "--file", sea)
    play(daemon, "sonar-replay", sea, "--ranks", "2", "--frame-samples", str(FRAME))
    daemon.receive_until([SECONDS * FS_HZ - WINDOW])
    same_bytes(by_window(daemon), wanted)
    daemon.end()
    daemon = Daemon(2, share=0.9)
    senders = [play(daemon, "sonar-replay", sea, "--ranks", "2", "--rank", str(rank), "--frame-samples", str(FRAME),
                    wait=False) for rank in (0, 1)]
    daemon.receive_until([SECONDS * FS_HZ - WINDOW])
    same_bytes(by_window(daemon), wanted)
    for sender in senders:
        assert sender.wait(PATIENCE_S) == 0, sender.stderr.read()
        sender.stderr.close()
    daemon.end()
    folder.cleanup()


def send_part(daemon, data, rank, epoch=1, begin=0):
    first, end = blocks(daemon.ranks)[rank]
    for at in range(0, len(data), FRAME):
        daemon.send(data[at:at + FRAME, first:end], first, rank, begin + at, epoch)


def windows_of(daemon, topic="cbf.azimuth"):
    return {head["sample_index"]: (head, body) for name, head, body in daemon.messages if name == topic}


def a_silent_rank_takes_part_with_nothing():
    """Rank 1's digitiser is off for four seconds and returns."""
    data = sea(12 * FS_HZ)
    daemon = Daemon(2, more=LOSSY, share=0.9)
    feed(daemon, data[:4 * FS_HZ])
    send_part(daemon, data[4 * FS_HZ:8 * FS_HZ], 0, begin=4 * FS_HZ)
    daemon.receive_until([7 * FS_HZ])
    rest = data[8 * FS_HZ:]
    for at in range(0, len(rest), FRAME):
        for rank, (first, end) in enumerate(blocks(2)):
            daemon.send(rest[at:at + FRAME, first:end], first, rank, 8 * FS_HZ + at)
    daemon.receive_until([11 * FS_HZ])
    seen, missing = windows_of(daemon), windows_of(daemon, "element.missing")
    mvdr, beam = windows_of(daemon, "mvdr.azimuth"), {head["window"]: (head, body) for topic, head, body in daemon.messages if topic == "beam.audio"}
    for sample in range(0, 11 * FS_HZ + 1, HOP):
        head = seen[sample][0]
        gone = 4 * FS_HZ - WINDOW < sample < 8 * FS_HZ - HOP
        partly = 8 * FS_HZ - HOP <= sample < 8 * FS_HZ  # its ingest has only the end of the window
        if partly:
            continue
        share = np.frombuffer(missing[sample][1], "<f4")
        assert ("rank_absent" in head["flags"]) == gone, (sample, head)
        assert head["sensors_used"] == (CHANNELS // 2 if gone else CHANNELS), (sample, head)
        assert head["missing_share"] == ({"mean": 0.5, "worst": 1} if gone else {"mean": 0, "worst": 0})
        assert (share == [0] * (CHANNELS // 2) + [gone] * (CHANNELS // 2)).all(), (sample, share)
        head, body = beam[head["window"]]
        lacking = np.isnan(np.frombuffer(body, "<f4").reshape(4, HOP)[0]).sum()
        assert head["beams"][0]["missing"] == lacking and (lacking == HOP if gone else lacking < HOP or not sample), (sample, lacking)
        if gone:  # no snapshot of a window that lacks samples enters the covariance
            assert mvdr[sample][1] == mvdr[4 * FS_HZ - WINDOW][1], sample
    daemon.end()


def the_status_tells_of_every_rank():
    """Frames with any fault are counted exactly, each by the rank that got it."""
    data = sea(6 * FS_HZ)
    daemon = Daemon(3, more=LOSSY, share=0.9)
    feed(daemon, data[:3 * FS_HZ])
    sent = [3 * FS_HZ // FRAME] * 3
    bad = [0, 2, 1]
    for rank, first in ((1, 0), (1, CHANNELS - 3), (2, 5)):  # channels of other ranks
        daemon.send(data[:FRAME, :3], first, rank)
    for rank in (0, 1):  # rank 2 falls silent
        send_part(daemon, data[3 * FS_HZ:], rank, begin=3 * FS_HZ)
        sent[rank] += 3 * FS_HZ // FRAME
    degraded = None
    until = time.monotonic() + PATIENCE_S
    while time.monotonic() < until and not (degraded and daemon.status["ranks"][1]["frames_accepted"] == sent[1]):
        daemon.receive(50)
        for condition in daemon.status["conditions"]:
            if condition["code"] == "ranks_absent":
                degraded = condition
    status = daemon.status
    assert degraded and degraded["text"].startswith("rank 2 on ") and degraded["severity"] == "degraded", status
    assert degraded["channels"] == {"count": 8, "ranges": [[16, 23]]}, degraded
    lines = status["ranks"]
    assert [line["channels"] for line in lines] == [[0, 7], [8, 15], [16, 23]], lines
    assert [line["frames_accepted"] for line in lines] == sent, (lines, sent)
    assert [line["frames_dropped"] for line in lines] == bad, lines
    assert [line["windows_absent"] for line in lines][:2] == [0, 0] and lines[2]["windows_absent"] > 0, lines
    assert all(line["host"] for line in lines)
    frames = status["frames"]
    assert frames["accepted"] == sum(sent) and frames["received"] == sum(sent) + 3, frames
    assert frames["dropped"]["wrong_channels"] == 3 and sum(frames["dropped"].values()) == 3, frames
    daemon.end()


def half_an_array_is_that_of_one_process():
    """While a rank is silent, the messages equal those of one process that lacks its channels."""
    data, half = sea(6 * FS_HZ), CHANNELS // 2
    several, alone = (Daemon(ranks, more=LOSSY, share=0.9) for ranks in (2, None))
    feed(several, data[:2 * FS_HZ])
    feed(alone, data[:2 * FS_HZ])
    for at in range(2 * FS_HZ, 6 * FS_HZ, FRAME):
        several.send(data[at:at + FRAME, :half], 0, 0, at)
        alone.send(data[at:at + FRAME, :half], 0, "", at)
    sample = 4 * FS_HZ  # far from where the second half ends
    for daemon in (several, alone):
        daemon.receive_until([sample])
    for topic in ("cbf.azimuth", "cbf.nearfield", "cbf.lofar"):
        assert db(windows_of(alone, topic)[sample][1], windows_of(several, topic)[sample][1]) <= 0.01
    several.end()
    alone.end()


def ctl(daemon, *words):
    """sonarctl's output and exit code."""
    done = subprocess.run([binaries / "sonarctl", "--config", daemon.yaml, "--timeout", "30", *words], text=True,
                          capture_output=True, timeout=PATIENCE_S)
    return done.stdout + done.stderr, done.returncode


def changed(ranks, data):
    """A whole run during which values change: messages by window."""
    daemon, part = Daemon(ranks), 3 * FS_HZ
    steps = ((["set", "sound_speed_mps", "1490"],), (["mask", "+5,20"], ["set", "mvdr.source_count", "random_matrix"]),
             (["set", "array.heading_deg", "30"], ["mask", "none"],
              ["set", "cbf.band_hz", "[350, 500]"], ["set", "mvdr.band_hz", "[420, 480]"], ["set", "mvdr.music", "2"]),
             (["set", "cbf.shading", "hann"], ["set", "lofar.band_hz", "[200, 550]"], ["set", "mvdr.band_hz", "[310, 600]"]))
    for i in range(len(steps) + 1):
        feed(daemon, data[i * part:(i + 1) * part], begin=i * part)
        daemon.receive_until([(i + 1) * part - WINDOW])
        for words in steps[i] if i < len(steps) else ():
            text, code = ctl(daemon, *words)
            assert code == 0, text
    daemon.end()
    return by_window(daemon)


def recordings_of_ranks_are_replayed():
    """Each rank keeps its own samples, whose replay gives the live spectra, byte for byte;
    rank 0 records messages."""
    with tempfile.TemporaryDirectory(prefix="mpi_test.") as name:
        folder = pathlib.Path(name)
        record = f'record: {{what: raw, directory: "{name}", at_start: false}}'
        live, _ = simulated(2, "scene", "--ranks", "2", record=record, before=[["record", "start"]])
        live.end()
        files = [sorted(folder.glob(f"test_r{rank}-*.sigmf-meta")) for rank in (0, 1)]
        assert [len(f) for f in files] == [1, 1], list(folder.iterdir())
        for rank, (meta,) in enumerate(files):
            about = json.loads(meta.read_text())["global"]
            assert about["sonar:sensors"]["channel"] == list(range(12 * rank, 12 * rank + 12)), about
            assert [about[f"sonar:{key}"] for key in ("rank", "ranks", "first_channel", "array_channels")] == \
                [rank, 2, 12 * rank, CHANNELS]
        played = Daemon(2, share=0.9, skew=WITH_GAPS)
        sent = play(played, "sonar-replay", *files[1], *files[0])
        assert [line["samples"] for line in sent["ranks"]] == [SECONDS * FS_HZ] * 2, sent
        played.receive_until([SECONDS * FS_HZ - WINDOW])
        same_bytes(by_window(played), by_window(live))
        for rank, words in ((0, "recorded where 3 ranks shared the array"), (1, "12 channels, but the configuration has 8")):
            (meta,), copy = files[rank], folder / f"copy_r{rank}.sigmf-meta"
            copy.write_text(meta.read_text().replace('"sonar:ranks": 2', '"sonar:ranks": 3'))
            copy.with_suffix(".sigmf-data").write_bytes(meta.with_suffix(".sigmf-data").read_bytes())
            assert copy.read_text() != meta.read_text()
            wrong = subprocess.run([binaries / "sonar-replay", files[0][0], copy, "--config", played.yaml], text=True,
                                   capture_output=True, timeout=PATIENCE_S)  # the other rank's is stopped
            assert wrong.returncode == 2 and words in wrong.stderr, wrong
        played.end()
    with tempfile.TemporaryDirectory(prefix="mpi_test.") as name:
        daemon, _ = simulated(2, "calm", "--ranks", "2", record=f'record: {{what: spectra, directory: "{name}"}}')
        daemon.end()
        kept = sorted(path.name.split("-")[0] + path.suffix for path in pathlib.Path(name).iterdir())
        assert kept == ["test.sonar-index", "test.sonar-spectra"], kept


def changes_hold_for_all_ranks():
    """From the same window on as with one process, and with the same effect."""
    data = sea(15 * FS_HZ)
    alone, several = changed(None, data), changed(3, data)
    heads = [head for (topic, _), (head, _) in sorted(several.items()) if topic == "cbf.azimuth"]
    assert [h["sample_index"] for h in heads if "config_changed" in h["flags"]] == [i * 3 * FS_HZ - HOP for i in range(1, 5)]
    assert len({h["config_version"] for h in heads}) == 5
    assert {h["sensors_used"] for h in heads} == {CHANNELS, CHANNELS - 2}
    assert {tuple(h["band_hz"]) for h in heads} == {(300, 600), (350, 500)}, heads[-1]
    rows = {head["shape"][0] for (topic, _), (head, _) in several.items() if topic == "mvdr.spectrum"}
    assert rows == {76, 16, 73}, rows  # 16 bins, all of them rank 1's
    compare(alone, several)


def a_change_is_taken_by_all_or_none():
    """A mask leaves rank 1 no sensor, or rank 1 is killed during changes."""
    data = sea(6 * FS_HZ)
    daemon = Daemon(3, more=LOSSY, share=0.9)
    before, _ = ctl(daemon, "version")
    text, code = ctl(daemon, "mask", "8-15")
    assert code == 1 and "rank 1 of 3 has channels 8 to 16, which feed no sensor in use" in text, (code, text)
    for words, reason in ((["set", "cbf.band_hz", "[300, 610]"], "a near field has room for 301 bins"),
                          (["set", "mvdr.band_hz", "[300, 800]"], "room for bins 75 to 150"), (["set", "array.mask", "[77]"], "77"),
                          (["train"], "several ranks share the array: train before"),
                          (["set", "fs_hz", "3000"], "cannot change while the daemon runs")):
        text, code = ctl(daemon, *words)
        assert code == 1 and reason in text, (words, code, text)
    assert ctl(daemon, "version")[0] == before
    feed(daemon, data[:2 * FS_HZ])
    daemon.receive_until([2 * FS_HZ - WINDOW])
    send_part(daemon, data[2 * FS_HZ:4 * FS_HZ], 0, begin=2 * FS_HZ)  # the digitisers of ranks 1 and 2 are off
    text, code = ctl(daemon, "set", "sound_speed_mps", "1480")
    assert code == 0, text
    daemon.receive_until([4 * FS_HZ - WINDOW])
    feed(daemon, data[4 * FS_HZ:], begin=4 * FS_HZ)
    daemon.receive_until([6 * FS_HZ - WINDOW])
    heads = {sample: head for sample, (head, _) in windows_of(daemon).items()}
    first = [sample for sample, head in heads.items() if "config_changed" in head["flags"]]
    assert len(first) == 1 and first[0] >= 2 * FS_HZ - HOP, first
    for sample, head in heads.items():
        assert head["sound_speed_mps"] == (1480 if sample >= first[0] else 1500), head
    daemon.wait_for("holds from sample %d on" % first[0], 3)  # every rank says so with its next tick
    (daemon.folder / "array.yaml").write_text(daemon.yaml.read_text().replace("mps: 1500", "mps: 1520"))
    os.kill(daemon.pids()[0], signal.SIGHUP)
    os.kill(daemon.pids()[1], signal.SIGHUP)
    daemon.wait_for("1520 in place of 1480")
    os.kill(daemon.pids()[1], signal.SIGKILL)
    text, code = ctl(daemon, "set", "sound_speed_mps", "1490")
    assert code != 0 or daemon.process.wait(PATIENCE_S), text
    assert daemon.process.wait(PATIENCE_S) and not daemon.pids(), daemon.text()
    daemon.close()


def sensors_of_all_ranks_are_judged():
    """array.auto_mask masks sensor 20, which is dead and belongs to rank 1."""
    data = sea(30 * FS_HZ)
    data[:, 20] = 0
    daemon = Daemon(2, array="auto_mask: true, ")
    for at in range(0, len(data), HOP):
        feed(daemon, data[at:at + HOP], begin=at)
        head = daemon.messages[-1][1] if daemon.messages else {}
        if head.get("sensors_used") == CHANNELS - 1:
            break
        daemon.receive(200)
    assert head["sensors_used"] == CHANNELS - 1, daemon.text()
    elements = daemon.await_status()["elements"]
    assert elements["judged"] == CHANNELS and elements["masked_auto"]["sensors"] == [[20, 20]], elements
    assert elements["dead"]["channels"] == [[20, 20]], elements
    assert "the beams leave out 1 sensors: 20" in daemon.text(), daemon.text()
    assert any("mask_changed" in head["flags"] for _, head, _ in daemon.messages)
    daemon.end()


def identical_sensors_of_two_ranks_are_named():
    """Sensor 20, rank 1's, has the samples of sensor 3, rank 0's."""
    data = sea(30 * FS_HZ)
    data[:, 20] = data[:, 3]
    daemon = Daemon(2)
    until = time.monotonic() + PATIENCE_S
    at = 0
    while daemon.status.get("elements", {}).get("identical", {}).get("count") != 2:
        assert time.monotonic() < until and at < len(data), daemon.status.get("elements")
        feed(daemon, data[at:at + HOP], begin=at)
        at += HOP
        daemon.receive(200)
    assert daemon.status["elements"]["identical"]["sensors"] == [[3, 3], [20, 20]], daemon.status["elements"]
    daemon.end()


def too_much_missing_is_dropped():
    data = sea(4 * FS_HZ)
    daemon = Daemon(2, more=LOSSY, share=0.4)
    feed(daemon, data[:2 * FS_HZ])
    send_part(daemon, data[2 * FS_HZ:], 0, begin=2 * FS_HZ)
    until = time.monotonic() + 30
    while daemon.status["windows"]["dropped"]["missing"] < 4:
        assert time.monotonic() < until, daemon.status
        daemon.receive(50)
    rank = daemon.status["ranks"][1]
    assert rank["windows_absent"] >= 3, daemon.status  # counted in addition to dropped ones
    assert "ranks_absent" in [condition["code"] for condition in daemon.status["conditions"]], daemon.status
    assert max(windows_of(daemon)) == 2 * FS_HZ - WINDOW, sorted(windows_of(daemon))
    daemon.end()


def an_epoch_is_adopted_by_all_or_none():
    """Rank 1's digitiser restarts alone, and later rank 0's as well."""
    data = sea(4 * FS_HZ)
    daemon = Daemon(2, more=LOSSY, share=0.9)
    feed(daemon, data, epoch=1)
    daemon.receive_until([3 * FS_HZ])
    whole = len(windows_of(daemon))
    first, end = blocks(2)[1]
    for at in range(0, 2 * FS_HZ, FRAME):  # rank 0 continues in epoch 1
        daemon.send(data[at:at + FRAME, :first], 0, 0, 4 * FS_HZ + at, epoch=1)
        daemon.send(data[at:at + FRAME, first:end], first, 1, at, epoch=2)
    daemon.receive_until([5 * FS_HZ])
    later = [head for _, head, _ in daemon.messages if head["topic"] == "cbf.azimuth"][whole + 1:]
    assert later and all(head["epoch"] == 1 and "rank_absent" in head["flags"] for head in later), later
    daemon.messages.clear()
    feed(daemon, data, epoch=3)
    daemon.receive_until([3 * FS_HZ])
    heads = [head for _, head, _ in daemon.messages if head["topic"] == "cbf.azimuth" and head["epoch"] == 3]
    assert [head["sample_index"] for head in heads] == list(range(0, 3 * FS_HZ + 1, HOP)), heads
    assert "restarted" in heads[0]["flags"] and not any(head["flags"] for head in heads[1:]), heads
    daemon.end()


def a_rank_says_that_it_is_bound():
    """Bound to one processor each, mpirun's default, although each rank's share is larger."""
    processors = os.cpu_count()
    if processors < 4:
        print(f"a_rank_says_that_it_is_bound: skipped: two ranks' shares of {processors} processors are one each")
        return
    for bind_to, says in (("core", 2), ("none", 0)):
        d = Daemon(2, bind_to=bind_to)
        assert d.text().count("that are its share of the host") == says, d.text()
        d.end()


def a_rank_that_dies_ends_the_job():
    for rank in (0, 1, 2):
        daemon = Daemon(3)
        feed(daemon, sea(3 * FS_HZ))
        pids = daemon.pids()
        assert sorted(pids) == [0, 1, 2], pids
        os.kill(pids[rank], signal.SIGKILL)
        code = daemon.process.wait(PATIENCE_S)
        assert code not in (0, None), code
        assert "signal 9" in daemon.text(), daemon.text()  # mpirun's own line
        until = time.monotonic() + 10
        while daemon.pids() and time.monotonic() < until:
            time.sleep(0.05)
        assert not daemon.pids(), daemon.text()
        daemon.close()


def feed_what_fits(daemon, data, begin, end):
    """In real time to all ranks; a frame that a rank has no room for is lost."""
    for at in range(begin, end, FRAME):
        for rank, (first, last) in enumerate(blocks(daemon.ranks)):
            if daemon.socket(rank).poll(0, zmq.POLLOUT):
                daemon.send(data[at:at + FRAME, first:last], first, rank, at)
        daemon.receive(1000 * FRAME // FS_HZ)


def condition(daemon, code):
    return next((c for c in (daemon.status or {}).get("conditions", ()) if c["code"] == code), None)


def hang(daemon, rank, data, at):
    """Stops a rank's process while samples come, until the others say so, and has it go on; returns the next sample."""
    hung = daemon.pids()[rank]
    os.kill(hung, signal.SIGSTOP)
    begun, first = at, blocks(daemon.ranks)[rank][0]
    while not (said := condition(daemon, "ranks_hang")) or "the ranks have not met" in said["text"]: # not named yet
        assert at < begun + 60 * FS_HZ, daemon.status
        feed_what_fits(daemon, data, at, at := at + FS_HZ)
    assert said["severity"] == "degraded" and said["text"].startswith(f"rank {rank} on "), said
    assert said["channels"] == {"count": 8, "ranges": [[first, first + 7]]}, said
    assert daemon.status["conditions"][0] == said or daemon.status["health"] == "degraded", daemon.status
    os.kill(hung, signal.SIGCONT)
    before, begun = max(windows_of(daemon)), at
    while max(windows_of(daemon)) <= before or condition(daemon, "ranks_hang"):
        assert at < begun + 60 * FS_HZ, daemon.text()
        feed_what_fits(daemon, data, at, at := at + FS_HZ)
    return at


def ranks_that_hang_are_named_and_go_on():
    """One after the other and one again. In the end every rank still counts all that it received."""
    data = sea(400 * FS_HZ)
    daemon = Daemon(3, more=LOSSY, share=0.9)
    feed(daemon, data[:4 * FS_HZ])
    daemon.receive_until([2 * FS_HZ])
    at = 4 * FS_HZ
    for rank in (1, 2, 1):
        at = hang(daemon, rank, data, at)
    frames = daemon.status["frames"]
    assert frames["received"] == frames["accepted"] + sum(frames["dropped"].values()), frames
    daemon.end()


def the_others_stop_beside_a_rank_that_hangs():
    """Whether it is the root or not: the others end by themselves, and mpirun ends the one that hangs."""
    data = sea(3 * FS_HZ)
    for rank in (0, 1):
        daemon = Daemon(3)
        feed(daemon, data)
        daemon.receive_until([3 * FS_HZ - WINDOW])
        pids = daemon.pids()
        os.kill(pids[rank], signal.SIGSTOP)
        time.sleep(1.5)  # they are waiting for it
        for other in set(pids) - {rank}:
            os.kill(pids[other], signal.SIGTERM)
        daemon.process.wait(PATIENCE_S)
        assert daemon.text().count("stopping on SIGTERM") >= 1, daemon.text()
        until = time.monotonic() + PATIENCE_S
        while daemon.pids() and time.monotonic() < until:
            time.sleep(0.05)
        assert not daemon.pids(), daemon.text()
        daemon.close()


def config_text(folder, more="", runtime=""):
    return CONFIG.format(channels=CHANNELS, fs=FS_HZ, folder=folder, sink=f"ipc://{folder}/in", window=WINDOW, hop=HOP,
                         share=0.1, skew=250, restart=500, array="", ingest="", security="", runtime=runtime,
                         rank="{rank}", more=more)


def mpirun(ranks, *command):
    with tempfile.TemporaryDirectory(prefix="mpi_test.") as folder:
        return subprocess.run(["mpirun", "--oversubscribe", "-n", str(ranks), *command], text=True, capture_output=True,
                              timeout=PATIENCE_S, env=environment(folder))


def what_ranks_cannot_do_is_refused():
    with tempfile.TemporaryDirectory(prefix="mpi_test.") as name:
        yaml = pathlib.Path(name) / "array.yaml"
        yaml.write_text(config_text(name, more="cluster: {ranks: [4, 20]}"))
        done = mpirun(3, binaries / "sonard", yaml)
        words = "mpirun has started 3 ranks, but the configuration has channels for 2"
        assert done.returncode == 2 and words in done.stderr, done


def each_rank_is_trained_for_its_channels():
    """Each rank starts with its own table, which holds only for this number of ranks, and not for one process."""
    with tempfile.TemporaryDirectory(prefix="mpi_test.") as name:
        runtime, yaml = f'state_dir: "{name}", ', pathlib.Path(name) / "array.yaml"
        yaml.write_text(config_text(name, runtime=runtime))
        done = mpirun(2, binaries / "sonard", "--train", yaml)
        assert done.returncode == 0, done
        tables = sorted(path.name for path in pathlib.Path(name).glob("train*"))
        assert tables == ["train_r0.yaml", "train_r1.yaml"], tables
        done = mpirun(3, binaries / "sonard", "--explain", yaml)
        assert done.returncode == 0 and done.stdout.count("built-in rule") == 3, done
        assert done.stdout.count("sensors was '12' and is '8'") == 2, done
        alone = subprocess.run([binaries / "sonard", "--explain", yaml], text=True, capture_output=True, timeout=PATIENCE_S)
        assert alone.returncode == 0 and "this node is not trained" in alone.stdout, alone
        daemon = Daemon(2, runtime=runtime)
        for rank in (0, 1):
            assert f"trained table {name}/train_r{rank}.yaml" in daemon.text(), daemon.text()
        daemon.end()


def free_ports():
    """Two free ports that differ only in the last digit, 0 and 1; returns them without that digit."""
    for tens in range(2000 + os.getpid() % 1000, 6000):
        held = [socket.socket() for _ in range(2)]
        try:
            for digit, s in enumerate(held):
                s.bind(("127.0.0.1", 10 * tens + digit))
            return tens
        except OSError:
            pass
        finally:
            for s in held:
                s.close()


def keys_are_read_again_by_all_ranks():
    """One digitiser's key is removed and another's admitted: on every rank, not only on the root."""
    data = sea(4 * FS_HZ)
    with tempfile.TemporaryDirectory(prefix="mpi_test.") as name:
        folder = pathlib.Path(name)
        for side in ("senders", "readers"):
            (folder / side).mkdir()
        public, secret = zip(*(zmq.curve_keypair() for _ in range(3)))  # the node's, before, after
        certificate = 'metadata\ncurve\n    public-key = "{}"\n'
        (folder / "node.key_secret").write_text(certificate.format(public[0].decode()) +
                                                f'    secret-key = "{secret[0].decode()}"\n')
        (folder / "node.key_secret").chmod(0o600)
        for side in ("senders", "readers"):
            (folder / side / "before.key").write_text(certificate.format(public[1].decode()))
        daemon = Daemon(2, sink=f"tcp://127.0.0.1:{free_ports()}",
                        security=f"security: {{key: {name}/node.key_secret, allow_senders: [{name}/senders], "
                                 f"allow_readers: [{name}/readers]}}\n")  # which stay, and so does this reader
        daemon.key = public[1], secret[1], public[0]
        feed(daemon, data[:2 * FS_HZ])
        daemon.receive_until([2 * FS_HZ - WINDOW])
        before, daemon.push = daemon.push, {}
        (folder / "senders/before.key").unlink()
        (folder / "senders/after.key").write_text(certificate.format(public[2].decode()))
        text, code = ctl(daemon, "reload")
        assert code == 0, text
        for rank, push in before.items():
            until = time.monotonic() + PATIENCE_S
            while push.poll(0, zmq.POLLOUT):
                assert time.monotonic() < until, f"rank {rank} still lets the key in"
                time.sleep(0.02)
        daemon.key = public[2], secret[2], public[0]
        feed(daemon, data[2 * FS_HZ:], begin=2 * FS_HZ)
        daemon.receive_until([4 * FS_HZ - WINDOW])
        daemon.await_frames(2 * 4 * FS_HZ // FRAME)
        lines = daemon.status["ranks"]
        assert [line["frames_accepted"] for line in lines] == [4 * FS_HZ // FRAME] * 2, lines
        assert not any("rank_absent" in head["flags"] for _, head, _ in daemon.messages)
        daemon.end()


def all_stop_with_one():
    daemon = Daemon(3)
    feed(daemon, sea(3 * FS_HZ))
    daemon.receive_until([3 * FS_HZ - WINDOW])  # what is still in work when the time to stop is over is given up
    os.kill(daemon.pids()[1], signal.SIGTERM)
    code = daemon.process.wait(PATIENCE_S)
    text = daemon.text()
    assert code == 0 and text.count("stopping with the other ranks") == 2, (code, text)
    assert not daemon.pids() and "error" not in text, text
    daemon.close()


@atexit.register
def leave_nothing():
    for daemon in Daemon.running:
        daemon.process.kill()
        for pid in daemon.pids().values():
            os.kill(pid, signal.SIGKILL)
        shutil.rmtree(daemon.folder)


def without(head):
    return {key: value for key, value in head.items() if key not in DIFFERS}


def one_rank_is_no_other():
    data = sea(8 * FS_HZ)
    alone, one = whole_run(None, data, split=False), whole_run(1, data, split=False)
    assert alone.keys() == one.keys() and len({topic for topic, _ in alone}) >= 8, alone.keys()
    for key, (head, body) in alone.items():
        assert body == one[key][1], key
        assert without(head) == without(one[key][0]), (key, head, one[key][0])


TESTS = (one_rank_is_no_other, ranks_agree_with_one, sums_over_sensors_add_up, a_silent_rank_takes_part_with_nothing,
         the_status_tells_of_every_rank, the_simulator_feeds_ranks,
         scattered_sensors_agree_with_one, a_recording_is_replayed_to_ranks,
         recordings_of_ranks_are_replayed, changes_hold_for_all_ranks, a_change_is_taken_by_all_or_none, sensors_of_all_ranks_are_judged,
         identical_sensors_of_two_ranks_are_named,
         half_an_array_is_that_of_one_process, too_much_missing_is_dropped,
         an_epoch_is_adopted_by_all_or_none, a_rank_says_that_it_is_bound, a_rank_that_dies_ends_the_job,
         ranks_that_hang_are_named_and_go_on, the_others_stop_beside_a_rank_that_hangs, what_ranks_cannot_do_is_refused,
         each_rank_is_trained_for_its_channels, keys_are_read_again_by_all_ranks, all_stop_with_one)


def main():
    if not shutil.which("mpirun") or not (binaries.parent / "lib" / "libsonar-mpi.so").exists():
        print("skipped: there is no mpirun, or sonard was built without MPI (libopenmpi-dev, openmpi-bin)")
        return SKIPPED
    tried = mpirun(2, "true")
    if tried.returncode:
        print(f"skipped: mpirun cannot start two processes here: {tried.stderr.strip()[:300]}")
        return SKIPPED
    tests, named = TESTS, sys.argv[2:]
    if named[:1] == ["--part"]:
        part, parts = map(int, named[1].split("/"))
        tests = TESTS[part - 1::parts]
    elif named:
        tests = [test for test in TESTS if test.__name__ in named]
        assert len(tests) == len(named), f"there is no test {set(named) - {test.__name__ for test in tests}}"
    for test in tests:
        began = time.monotonic()
        test()
        print(f"{test.__name__}: passed, {time.monotonic() - began:.1f} s", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
