#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""The whole daemon: what sonar-sim sends through shared memory makes the same bytes as over the sockets, and the
faults of its frames are counted alike.
shared_test.py SOURCE BINARIES. Exit 77: skipped."""
import contextlib
import json
import pathlib
import subprocess
import sys
import tempfile

try:
    import zmq
except ImportError:
    sys.exit(77)

source, binaries = (pathlib.Path(name).resolve() for name in sys.argv[1:3])
CONFIG = """
schema: 1
array: {{name: shared, id: 1, geometry: {{line: {{sensors: 24, spacing_m: 1.5}}}}}}
sound_speed_mps: 1500
fs_hz: 4000
ingest: {{endpoints: ["ipc://{at}/in"], shared_memory: "ipc://{at}/memory", overload: block, threads: {threads}, max_skew_ms: 20000}}
dft: {{length: 1024, hop: 512}}
cbf: {{band_hz: [100, 400]}}
mvdr: {{enabled: false}}
output: {{endpoint: "ipc://{at}/out", topics: [cbf.azimuth, status], high_water_mark: 100000}}
"""

SECONDS = 6
FAULTS = """
faults:
  - {kind: corrupt, digitiser: 0, frame: 10, count: 3}
  - {kind: truncate, digitiser: 1, frame: 20, count: 4}
  - {kind: oversize, digitiser: 2, frame: 30, count: 5}
  - {kind: wrong_array, frame: 40}
  - {kind: repeat, digitiser: 1, frame: 50, count: 2}
"""


@contextlib.contextmanager
def listening(threads):
    """A daemon's configuration and a subscriber that hears it."""
    with tempfile.TemporaryDirectory() as at:
        config = pathlib.Path(at, "config.yaml")
        config.write_text(CONFIG.format(at=at, threads=threads))
        daemon = subprocess.Popen([binaries / "sonard", config], stderr=subprocess.DEVNULL)
        sub = zmq.Context.instance().socket(zmq.SUB)
        sub.rcvhwm = 0
        sub.subscribe("cbf.azimuth")
        sub.subscribe("status")
        sub.connect(f"ipc://{at}/out")
        assert sub.poll(20000), "the daemon does not publish its status"
        yield config, sub
        daemon.terminate()
        assert daemon.wait(30) == 0, "the daemon did not end well"
        sub.close(0)


def published(feed, threads):
    """All spectra of a stream, by window, and the status once all of its frames have come."""
    windows = (SECONDS * 4000 - 1024) // 512 + 1
    with listening(threads) as (config, sub):
        summary = config.with_name("summary.json")
        feed(config, "--summary", summary)
        sent = json.loads(summary.read_text())["messages"]
        spectra, status = {}, {"windows": {"processed": 0}}
        while len(spectra) < windows or status["windows"]["processed"] < windows or status["frames"]["received"] < sent:
            assert sub.poll(20000), f"the daemon has fallen silent after {len(spectra)} of {windows} windows"
            topic, head, body = sub.recv_multipart()
            if topic == b"status":
                status = json.loads(head)
            else:
                spectra[json.loads(head)["window"]] = body
        return spectra, status


def counted(feed):
    """The daemon's counts of all frames of a stream, and the simulator's summary."""
    with listening(1) as (config, sub):
        summary = config.with_name("summary.json")
        feed(config, "--summary", summary)
        sent = json.loads(summary.read_text())
        frames = {"received": 0}
        while frames["received"] < sent["messages"]:
            assert sub.poll(20000), "the daemon has fallen silent"
            topic, head, _ = sub.recv_multipart()
            frames = json.loads(head)["frames"] if topic == b"status" else frames
        return {"accepted": frames["accepted"], **frames["dropped"]}, sent


def simulate(*more, faults=""):
    def feed(config, *output):
        scene = config.with_name("scene.yaml")
        scene.write_text((source / "config/scenes/one-source.yaml").read_text() + faults)
        subprocess.run([binaries / "sonar-sim", "--config", config, "--scene", scene, "--rate", "max",
                        "--duration", str(SECONDS), "--digitisers", "3", "--epoch", "5", "--format", "s24", *more, *output],
                       check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=120)
    return feed


wanted, before = published(simulate(), 1)
for threads in 1, 3:
    got, status = published(simulate("--shared-memory"), threads)
    assert got == wanted, f"{threads} threads: {len(got)} windows, or other bytes"
    frames, old = status["frames"], before["frames"]
    assert frames["accepted"] == old["accepted"] and sum(frames["dropped"].values()) == 0, frames

wanted_fate, sent = counted(simulate(faults=FAULTS))
fate, _ = counted(simulate("--shared-memory", faults=FAULTS))
assert fate == wanted_fate, f"through shared memory {fate}, over the sockets {wanted_fate}"
expected = {"malformed": 3, "truncated": 4, "oversized": 5, "wrong_array": 3, "repeated": 2}
assert {cause: n for cause, n in fate.items() if n and cause != "accepted"} == expected, fate
assert fate["accepted"] == sent["frames"] - sum(expected.values()) + 2, (fate, sent)
print(f"{len(wanted)} windows, the same bytes, the same faults")
