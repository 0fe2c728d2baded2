#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""The whole daemon: sonar-sim through shared memory publish the same bytes as over the sockets.
shared_test.py SOURCE BINARIES. Exit 77: skipped."""
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


def published(feed, threads):
    """All spectra of a stream, by window, and the last status."""
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
        feed(config)
        spectra, status, quiet = {}, None, 0
        while quiet < 2:  # a status comes once a second: two without a spectrum end the stream
            assert sub.poll(20000), "the daemon has fallen silent"
            topic, head, body = sub.recv_multipart()
            if topic == b"status":
                status, quiet = json.loads(head), quiet + 1
            else:
                spectra[json.loads(head)["window"]], quiet = body, 0
        daemon.terminate()
        assert daemon.wait(30) == 0, "the daemon did not end well"
        sub.close(0)
        return spectra, status


def simulate(*more):
    scene = source / "config/scenes/one-source.yaml"

    def feed(config):
        subprocess.run([binaries / "sonar-sim", "--config", config, "--scene", scene, "--rate", "max",
                        "--duration", "6", "--digitisers", "3", "--epoch", "5", "--format", "s24", *more],
                       check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=120)
    return feed


wanted, before = published(simulate(), 1)
assert len(wanted) > 40, f"{len(wanted)} windows"
for threads in 1, 3:
    got, status = published(simulate("--shared-memory"), threads)
    assert got == wanted, f"{threads} threads: {len(got)} windows, or other bytes"
    frames, old = status["frames"], before["frames"]
    assert frames["accepted"] == old["accepted"] and sum(frames["dropped"].values()) == 0, frames
print(f"{len(wanted)} windows, the same bytes")
