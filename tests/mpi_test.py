#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""sonard under mpirun: one rank publishes the very bytes of a process without MPI.
usage: mpi_test.py BIN"""
import atexit
import json
import os
import pathlib
import shutil
import signal
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
ROOT_TOO = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
CHANNELS, FS_HZ, FRAME = 24, 2000, 250
WINDOW, HOP = 2000, 1000
TOPICS = ("cbf.azimuth", "cbf.nearfield", "cbf.lofar", "mvdr.azimuth", "mvdr.spectrum", "element.psd",
          "element.missing", "detections", "status")
DIFFERS = ("run", "latency_us", "config_version")  # between any two runs: sockets lie in folders of their own
CONFIG = """
schema: 1
array: {{id: 1, name: test, geometry: {{line: {{sensors: {channels}, spacing_m: 0.75}}}}}}
sound_speed_mps: 1500
fs_hz: {fs}
ingest: {{endpoints: ["ipc://{folder}/in{rank}"], overload: block, restart_after_ms: 500}}
dft: {{length: {window}, hop: {hop}}}
cbf: {{band_hz: [300, 600], ranges_m: [50, 200]}}
lofar: {{band_hz: [100, 700]}}
mvdr: {{enabled: true, band_hz: [300, 600], length: 500, snapshots: 8}}
output: {{endpoint: "ipc://{folder}/out", high_water_mark: 1000, queue_results: 16}}
runtime: {{backend: cpu, threads: 1, log_level: info}}
{more}
"""


def sea(samples, channels=CHANNELS, seed=1):
    """Noise, two tones and a broadband ship, as a line hears them: f32 [sample][channel]."""
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


class Daemon:
    """sonard, alone (ranks None) or under mpirun, with a subscriber and the log."""
    running = []

    def __init__(self, ranks, topics=TOPICS, more="", split=True):
        self.ranks, self.split, self.folder = ranks, split and ranks, pathlib.Path(tempfile.mkdtemp(prefix="mpi_test."))
        self.yaml = self.folder / "array.yaml"
        self.yaml.write_text(CONFIG.format(channels=CHANNELS, fs=FS_HZ, folder=self.folder, window=WINDOW,
                                           hop=HOP, more=more, rank="{rank}" if split and ranks else ""))
        command = [binaries / "sonard", self.yaml]
        if ranks:
            command = ["mpirun", "--oversubscribe", "--bind-to", "none", "-n", str(ranks), *command]
        self.log = open(self.folder / "log", "w+")
        self.process = subprocess.Popen(command, stderr=self.log, stdout=self.log, env=os.environ | ROOT_TOO)
        self.running.append(self)
        self.context = zmq.Context()
        self.sub = self.context.socket(zmq.SUB)
        self.sub.setsockopt(zmq.RCVHWM, 0)
        self.sub.connect(f"ipc://{self.folder}/out")
        for topic in topics:
            self.sub.subscribe(topic)
        self.push, self.messages, self.status = {}, [], None
        self.wait_for("running", ranks or 1)
        while not self.status or self.status["output"]["subscriptions"] < len(topics):
            assert self.process.poll() is None, self.text()
            self.receive(50)

    def text(self):
        return (self.folder / "log").read_text()

    def wait_for(self, words, times=1, seconds=60):
        until = time.monotonic() + seconds
        while self.text().count(words) < times:
            assert self.process.poll() is None, self.text()
            assert time.monotonic() < until, f"no '{words}' in the log:\n{self.text()}"
            time.sleep(0.02)

    def pids(self):
        """Of the ranks, by their number."""
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
            push.connect(f"ipc://{self.folder}/in{rank}")
            assert push.poll(20000, zmq.POLLOUT), self.text()
        return self.push[rank]

    def send(self, samples, first_channel, rank, begin=0, epoch=1):
        """One frame; waits until there is room. Receives meanwhile."""
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

    def receive_until(self, windows, seconds=60):
        """Messages of the window that begins at the last of these samples have come."""
        until = time.monotonic() + seconds
        last = max(windows)
        while not any(head["sample_index"] >= last for _, head, _ in self.messages):
            assert time.monotonic() < until, f"no window {last}:\n{self.text()}"
            assert self.process.poll() is None, self.text()
            self.receive(50)
        self.receive(300)

    def end(self):
        self.process.send_signal(signal.SIGTERM)
        try:
            code = self.process.wait(20)
        finally:
            if self.process.poll() is None:
                self.process.kill()
        left = self.pids()
        assert not left, f"{left} are left:\n{self.text()}"
        self.close()
        return code

    def close(self):
        self.running.remove(self)
        self.context.destroy(linger=0)
        self.log.close()
        shutil.rmtree(self.folder)


def blocks(ranks):
    """An even split, as the configuration's default."""
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


def main():
    if not shutil.which("mpirun") or not (binaries.parent / "lib" / "libsonar-mpi.so").exists():
        print("skipped: there is no mpirun, or sonard was built without MPI (libopenmpi-dev, openmpi-bin)")
        return SKIPPED
    for test in (one_rank_is_no_other,):
        began = time.monotonic()
        test()
        print(f"{test.__name__}: passed, {time.monotonic() - began:.1f} s", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
