#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""sonar-replay: what a digitiser's socket gets of sound files that several recorders have made, of their dates, and of
files that are cut off. replay_test.py BINARIES. Exit 77: skipped."""
import json
import pathlib
import struct
import subprocess
import sys
import tempfile
import time

try:
    import numpy as np
    import zmq
except ImportError as missing:
    print(f"skipped: the test needs python3-numpy and python3-zmq ({missing})")
    sys.exit(77)

binaries = pathlib.Path(sys.argv[1]).resolve()
FS_HZ, SECOND = 8000, 10**9
CONFIG = """schema: 1
array: {id: 1, geometry: {line: {sensors: 4, spacing_m: 0.75}}}
sound_speed_mps: 1500
fs_hz: 8000
ingest: {endpoints: ["ipc://FOLDER/nobody"]}
dft: {length: 1024}
cbf: {band_hz: [400, 950]}
output: {endpoint: "ipc://FOLDER/nobody-either"}
"""


def bext(date, clock, since_midnight):
    """The chunk of EBU Tech 3285, version 1."""
    body = struct.pack("<256s32s32s10s8sQH254s", b"", b"", b"", date.encode(), clock.encode(), since_midnight, 1, b"")
    return struct.pack("<4sI", b"bext", len(body)) + body


def wav(path, samples, *chunks):
    """16 bits, samples[sample][channel]."""
    channels = samples.shape[1]
    form = struct.pack("<4sIHHIIHH", b"fmt ", 16, 1, channels, FS_HZ, 2 * channels * FS_HZ, 2 * channels, 16)
    body = b"WAVE" + form + b"".join(chunks) + struct.pack("<4sI", b"data", samples.nbytes) + samples.astype("<i2").tobytes()
    path.write_bytes(struct.pack("<4sI", b"RIFF", len(body)) + body)
    return path


def replay(*arguments):
    done = subprocess.run([binaries / "sonar-replay", *map(str, arguments)], capture_output=True, text=True, timeout=120)
    return done.returncode, done.stderr


def played(folder, *arguments):
    """Samples and the first frame's UTC at the socket, and the program's output."""
    pull = zmq.Context.instance().socket(zmq.PULL)
    pull.bind(f"ipc://{folder}/in")
    command = [binaries / "sonar-replay", *map(str, arguments), "--endpoint", f"ipc://{folder}/in", "--array-id", "1",
               "--rate", "max"]
    tool = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    parts, utc_ns = [], None
    while pull.poll(200) or tool.poll() is None:
        if not pull.poll(0):
            continue
        head, body = pull.recv_multipart()
        channels, count, kind = struct.unpack_from("<IIB", head, 16)
        assert kind == 1, "16-bit samples stay such"
        assert struct.unpack_from("<H", head, 26)[0] & 16, "frames say that a recording is played"
        parts.append(np.frombuffer(body, "<i2").reshape(count, channels))
        utc_ns = struct.unpack_from("<q", head, 48)[0] if utc_ns is None else utc_ns
    said = tool.communicate()[1]
    pull.close()
    assert tool.returncode == 0, said
    return np.concatenate(parts), utc_ns, said


def try_side_by_side(folder, rng):
    a, b = (rng.integers(-30000, 30000, (n, 2), "<i2") for n in (5000, 4321))
    files = wav(folder / "a.wav", a), wav(folder / "b.wav", b)
    samples, utc_ns, said = played(folder, *files, "--side-by-side")
    assert np.array_equal(samples, np.hstack([a[:4321], b])) and utc_ns == 0, samples.shape
    assert "a.wav has 5000 samples, of which 4321 are played" in said and "has no date" in said, said
    (folder / "line.yaml").write_text(CONFIG.replace("FOLDER", str(folder)))
    code, said = replay(*files, "--config", folder / "line.yaml")
    assert code == 2 and "2 channels, but the configuration has 4; --side-by-side plays" in said, said
    code, said = replay(files[0], *files, "--side-by-side", "--config", folder / "line.yaml")
    assert code == 2 and "6 channels, but the configuration has 4" in said, said


def try_dates(folder, rng):
    noon_ns = int(np.datetime64("2026-01-31T12:00:00", "ns").astype(int))
    sea = rng.integers(-30000, 30000, (3000, 2), "<i2")
    exact = wav(folder / "exact.wav", sea, bext("2026-01-31", "12:00:00", 12 * 3600 * FS_HZ + 1234))
    coarse = wav(folder / "coarse.wav", sea, bext("2026:01:31", "12.00.00", 77))
    for file, wanted_ns in ((exact, noon_ns + round(1234 / FS_HZ * SECOND)), (coarse, noon_ns)):
        samples, utc_ns, said = played(folder, file)
        assert utc_ns == wanted_ns and np.array_equal(samples, sea), (file, utc_ns - wanted_ns)
        assert "days ago" in said, said
    assert played(folder, exact, "--utc", "0")[1] == 0
    assert played(folder, exact, "--utc", "2020-02-02T02:02:02.5Z")[1] == \
        int(np.datetime64("2020-02-02T02:02:02.5", "ns").astype(int))
    before_ns = time.time_ns()
    utc_ns = played(folder, exact, "--utc", "now", "--start", "0.25")[1]
    assert before_ns <= utc_ns <= time.time_ns(), "the first sample that is played is of now"
    code, said = replay(exact, coarse, "--side-by-side", "--endpoint", f"ipc://{folder}/none", "--array-id", 1)
    assert code == 2 and "side by side, samples must have the same time" in said, said
    both, utc_ns, _ = played(folder, exact, coarse, "--side-by-side", "--utc", "2026-01-31T12:00:00Z")
    assert np.array_equal(both, np.hstack([sea, sea])) and utc_ns == noon_ns
    for wrong in ("yesterday", "2026-13-01T00:00:00Z"):
        code, said = replay(exact, "--utc", wrong, "--endpoint", f"ipc://{folder}/none", "--array-id", 1)
        assert code == 2 and wrong in said, said


def try_health(folder, rng):
    """A real daemon, which drops the oldest windows, takes an old recording at half its pace."""
    sea = rng.integers(-3000, 3000, (3 * FS_HZ, 4), "<i2")
    file = wav(folder / "old.wav", sea, bext("2020-01-31", "12:00:00", 12 * 3600 * FS_HZ))
    (folder / "old.yaml").write_text(CONFIG.replace("FOLDER", str(folder)))
    sub = zmq.Context.instance().socket(zmq.SUB)
    sub.subscribe("status")
    sub.connect(f"ipc://{folder}/nobody-either")
    daemon = subprocess.Popen([binaries / "sonard", folder / "old.yaml"], stderr=subprocess.DEVNULL)
    try:
        tool = subprocess.Popen([binaries / "sonar-replay", file, "--config", folder / "old.yaml", "--loop", "forever",
                                 "--rate", "0.5"], stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        try:
            seen = watch_health(sub)
        finally:
            tool.terminate()
            tool.wait()
        codes = {condition["code"] for status in seen for condition in status["conditions"]}
        assert not codes & {"clock_offset", "samples_late", "rate"}, codes
        assert " years old, is played" in seen[-1]["text"], seen[-1]["text"]
    finally:
        daemon.terminate()
        assert daemon.wait() == 0
    sub.close()


def watch_health(sub):
    """Statuses until five in a row tell of the replay; the daemon may need a while for the first."""
    seen, told = [], 0
    while told < 5:
        assert sub.poll(60000), "no status"
        seen.append(json.loads(sub.recv_multipart()[1]))
        told = told + 1 if any(c["code"] == "replay" for c in seen[-1]["conditions"]) else 0
    return seen


def try_cut_off(folder, rng):
    sea = rng.integers(-30000, 30000, (3000, 2), "<i2")
    file = wav(folder / "cut.wav", sea)
    assert "cut off" not in played(folder, file)[2]
    file.write_bytes(file.read_bytes()[:-4000])
    samples, _, said = played(folder, file)
    assert np.array_equal(samples, sea[:2000]), samples.shape
    assert "cut.wav is truncated: it ends 4000 bytes before its header says, and 2000 samples are left" in said, said
    said = subprocess.run([binaries / "sonar-export", file, folder / "rest.wav"], capture_output=True, text=True).stderr
    assert "cut.wav is truncated" in said, said


def try_pauses(folder):
    """The recorded clock jumps by 11 days and then back: at 100 times the pace a tenth of a second."""
    file, at_ns = folder / "set.sonar-spectra", 1767225600 * SECOND
    messages = b""
    for i, step_s in enumerate((0, 1, 11 * 86400, 1, -5 * 86400, 1)):
        at_ns += step_s * SECOND
        messages += struct.pack("<4sHHIIQqQ", b"SNRM", 1, 40, 1, 2, 0, at_ns, 0) + b"t" + b"%02d" % i
    file.write_bytes(messages)
    sub = zmq.Context.instance().socket(zmq.SUB)
    sub.subscribe("t")
    sub.connect(f"ipc://{folder}/out")
    began_s = time.monotonic()
    tool = subprocess.Popen([binaries / "sonar-replay", file, "--output", f"ipc://{folder}/out", "--rate", "100"],
                            stderr=subprocess.PIPE, text=True)
    try:
        said = tool.communicate(timeout=60)[1]
    finally:
        tool.kill()
    got = [sub.recv_multipart()[1] for _ in range(6)]
    assert got == [b"%02d" % i for i in range(6)] and tool.returncode == 0, (got, said)
    assert "for 950400.0 s no message was recorded, or the clock was set: 0.1 s are waited" in said, said
    assert time.monotonic() - began_s >= 0.13, "1 s, 10 s, 1 s and 1 s of the recording's own time"
    sub.close()


with tempfile.TemporaryDirectory(prefix="sonard-replay-") as name:
    rng, here = np.random.default_rng(4), pathlib.Path(name)
    try_side_by_side(here, rng)
    try_dates(here, rng)
    try_health(here, rng)
    try_cut_off(here, rng)
    try_pauses(here)
