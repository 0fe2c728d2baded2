#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""beam.audio of a daemon, over its socket and as it recorded it: the tone of each of two simulated ships comes out of
its own beam with its own level, and is down in the other's by the array's pattern; a beam is moved while the daemon
runs; sonar-export makes sound of the recorded beams; of a recording, beams follow the numbers that a run before gave to its
tracks. beam_test.py BINARIES. Exit 77: skipped."""
import json
import pathlib
import struct
import subprocess
import sys
import tempfile

try:
    import h5py
    import numpy as np
    import zmq  # noqa: F401
except ImportError as missing:
    print(f"skipped: the test needs python3-numpy, python3-zmq and python3-h5py ({missing})")
    sys.exit(77)

source, binaries = (pathlib.Path(name).resolve() for name in sys.argv[1:3])
sys.path.insert(0, str(source / "tools/python"))
import sonar  # noqa: E402

FS_HZ, SENSORS, SPACING_M, HOP = 4000, 32, 1.0, 1000
SHIPS = {60: 613.0, 115: 437.0}  # azimuth, Hz
TONE_DB = 120.0
CONFIG = f"""
schema: 1
array: {{id: 1, name: line, geometry: {{line: {{sensors: {SENSORS}, spacing_m: {SPACING_M}}}}}, gain_db: -160}}
sound_speed_mps: 1500
fs_hz: {FS_HZ}
ingest: {{endpoints: ["ipc://FOLDER/in"], overload: block}}
dft: {{length: 1024, hop: {HOP}}}
cbf: {{band_hz: [300, 700]}}
mvdr: {{enabled: false}}
beam: {{az_deg: [60, 115]}}
output: {{endpoint: "ipc://FOLDER/out"}}
control: {{endpoint: "ipc://FOLDER/control"}}
record: {{what: spectra, directory: FOLDER, topics: [beam.audio]}}
runtime: {{threads: 1, backend: cpu}}
"""
SCENE = "schema: 1\nambient: {psd_db: 40}\nsources:\n" + "".join(
    f"  - {{name: ship{i}, far: {{az_deg: {az}}}, tones: [{{hz: {hz}, level_db: {TONE_DB}}}]}}\n"
    for i, (az, hz) in enumerate(SHIPS.items()))


def tone_db(series, hz):
    """Level of a tone, dB re 1 uPa, with a flat-top taper."""
    n = np.arange(len(series))
    taper = sum(c * np.cos(2 * np.pi * k * n / len(n)) for k, c in
                enumerate((0.21557895, -0.41663158, 0.277263158, -0.083578947, 0.006947368)))
    line = 2 * abs(np.sum(taper * series * np.exp(-2j * np.pi * hz * n / FS_HZ))) / taper.sum()
    return 20 * np.log10(line / np.sqrt(2))


def pattern_db(hz, beam_deg, ship_deg):
    turns = hz * SPACING_M / 1500 * (np.cos(np.radians(ship_deg)) - np.cos(np.radians(beam_deg)))
    return 20 * np.log10(abs(np.exp(2j * np.pi * turns * np.arange(SENSORS)).mean()))


def check_levels(series, beams):
    for row, beam_deg in zip(series, beams):
        for ship_deg, hz in SHIPS.items():
            want, got = TONE_DB + pattern_db(hz, beam_deg, ship_deg), tone_db(row, hz)
            assert abs(got - want) < (0.05 if ship_deg == beam_deg else 0.5), (beam_deg, ship_deg, got, want)


def program(name, *arguments):
    return subprocess.Popen([str(binaries / name), *map(str, arguments)], stdout=subprocess.DEVNULL)


def check_live(folder):
    """Reads until the stream ends; the first beam looks elsewhere from somewhere on. All samples that were published."""
    pieces, config, sim, set_to = [], folder / "config.yaml", None, None
    daemon = program("sonard", config)
    try:
        for s in sonar.subscribe(f"ipc://{folder}/out", "beam.audio", "status", timeout_s=60):
            if s.topic == "status":
                if sim is None and "beam.audio" in s.header["output"]["wanted"]:
                    sim = program("sonar-sim", "-c", config, "-s", folder / "scene.yaml", "--duration", 30, "--rate", 10,
                                  "--wait")
                continue
            assert s.unit == "uPa" and s.header["fs_hz"] == FS_HZ and s.data.shape == (2, HOP)
            pieces.append(s)
            if len(pieces) == 30:
                subprocess.run([binaries / "sonarctl", "--endpoint", f"ipc://{folder}/control", "set",
                                "beam.az_deg", "[115, 60]"], check=True, stdout=subprocess.DEVNULL)
            if set_to is None and s.header["beams"][0]["az_deg"] == 115:
                set_to = len(pieces)
            if set_to is not None and len(pieces) == set_to + 20:
                break
    finally:
        if sim is not None:
            sim.terminate(), sim.wait()
        daemon.terminate()
        assert daemon.wait() == 0
    starts = [s.header["sample_index"] for s in pieces]
    assert np.all(np.diff(starts) == HOP), "no message was lost, and none overlaps"
    assert [b["name"] for b in pieces[0].header["beams"]] == ["az60", "az115"]
    check_levels(np.hstack([s.data for s in pieces[5:25]]), (60, 115))
    check_levels(np.hstack([s.data for s in pieces[set_to:set_to + 19]]), (115, 60))
    return starts[0], np.hstack([s.data for s in pieces])


def read_wav(path):
    """Chunk by chunk: float samples, [sample][beam]."""
    raw, at, chunk = path.read_bytes(), 12, {}
    while at + 8 <= len(raw):
        name, size = struct.unpack_from("<4sI", raw, at)
        chunk[name] = raw[at + 8:at + 8 + size]
        at += 8 + size + size % 2
    channels, rate = struct.unpack_from("<HI", chunk[b"fmt "], 2)
    assert channels == 2 and rate == FS_HZ, (channels, rate)
    return np.frombuffer(chunk[b"data"], "<f4").reshape(-1, channels)


def export(*arguments):
    done = subprocess.run([binaries / "sonar-export", *map(str, arguments)], capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr


def join(folder):
    """The change while the daemon ran began another segment; messages stand for themselves."""
    segments = sorted(folder.glob("line-*.sonar-spectra"))
    assert len(segments) == 2, segments
    joined = folder / "joined.sonar-spectra"
    joined.write_bytes(b"".join(segment.read_bytes() for segment in segments))
    return joined


def check_export(folder, recorded, first, live):
    """The recording has all that was published live, and perhaps more behind it."""
    n = live.shape[1]
    known = ~np.isnan(live)
    code, said = export(recorded, folder / "pa.h5", "--duration", n / FS_HZ)
    assert code == 0 and f"from sample {first}" in said, said
    with h5py.File(folder / "pa.h5") as file:
        pascals = file["time_data"][:].T
    assert np.allclose(pascals[known], 1e-6 * live[known], rtol=1e-6) and np.all(pascals[~known] == 0)
    lost = n - int(known.all(axis=0).sum())
    assert f"{lost} samples are missing" in said, (lost, said)
    code, said = export(recorded, folder / "beams.wav", "--start", 5, "--duration", 2)
    assert code == 0 and "beams: az60, az115" in said and "missing" not in said, said
    sound = read_wav(folder / "beams.wav").T
    assert len(sound[0]) == 2 * FS_HZ and abs(np.abs(sound).max() - 0.9) < 1e-6
    scale = float(said.split("1 is ")[1].split(" uPa")[0])
    wanted = live[:, 5 * FS_HZ:7 * FS_HZ].astype(float)
    wanted -= wanted.mean(axis=1, keepdims=True)
    assert np.allclose(sound * scale, wanted, atol=1e-4 * scale)
    code, said = export(recorded, folder / "no.wav", "--config", folder / "config.yaml")
    assert code == 2 and "calibrated already" in said, said


def check_empty(folder, recorded):
    """Messages of other topics have no beams, and a file that is cut off within a message ends before it."""
    raw = recorded.read_bytes()
    other = folder / "other.sonar-spectra"
    other.write_bytes(raw.replace(b"beam.audio", b"cbf.lofar1"))
    code, said = export(other, folder / "other.wav")
    assert code == 2 and "no message of beam.audio" in said and not (folder / "other.wav").exists(), said
    other.write_bytes(raw[:len(raw) * 2 // 3])
    code, said = export(other, folder / "cut.wav")
    assert code == 0, said
    other.write_bytes(raw.replace(b'"shape":[2,', b'"shape":[9,'))
    code, said = export(other, folder / "bad.wav")
    assert code == 2 and not (folder / "bad.wav").exists(), said


def rewritten(raw, change):
    """The file with other headers: change(header, number of the message)."""
    out, at, number = b"", 0, 0
    while at < len(raw):
        topic, header, array = struct.unpack_from("<IIQ", raw, at + 8)
        start = at + 40 + topic
        text = change(json.loads(raw[start:start + header]), number)
        text = json.dumps(text).encode()
        out += raw[at:at + 12] + struct.pack("<I", len(text)) + raw[at + 16:start] + text
        out += raw[start + header:start + header + array]
        at, number = start + header + array, number + 1
    return out


def check_streams(folder, recorded):
    """A later stream is left out and told; days of silence are not written."""
    raw, file = recorded.read_bytes(), folder / "streams.sonar-spectra"
    file.write_bytes(rewritten(raw, lambda h, n: {**h, "epoch": h["epoch"] + (n >= 10)}))
    code, said = export(file, folder / "one.wav")
    assert code == 0 and f": {10 * HOP} samples of 2 beams" in said and "of a later stream are left out" in said, said
    file.write_bytes(rewritten(raw, lambda h, n: {**h, "sample_index": h["sample_index"] + (n >= 10) * 10 * HOP}))
    code, said = export(file, folder / "gap.h5", "--duration", 30 * HOP / FS_HZ)
    with h5py.File(folder / "gap.h5") as exported, h5py.File(folder / "pa.h5") as whole:
        with_gap, whole = exported["time_data"][:], whole["time_data"][:]
    assert np.array_equal(with_gap[:10 * HOP], whole[:10 * HOP]) and not with_gap[10 * HOP:20 * HOP].any()
    assert np.array_equal(with_gap[20 * HOP:], whole[10 * HOP:20 * HOP])
    file.write_bytes(rewritten(raw, lambda h, n: {**h, "sample_index": h["sample_index"] + (n >= 10) * 2**52}))
    code, said = export(file, folder / "days.wav")
    assert code == 2 and "s are missing" in said and not (folder / "days.wav").exists(), said
    code, said = export(file, folder / "part.wav", "--duration", 10 * HOP / FS_HZ)
    assert code == 0, said


def check_process(folder):
    """A recording of the ships becomes sound without a daemon."""
    config, sea = folder / "config.yaml", folder / "sea.f32"
    subprocess.run([binaries / "sonar-sim", "-c", config, "-s", folder / "scene.yaml", "--duration", "4", "--file", sea],
                   check=True, stdout=subprocess.DEVNULL)
    subprocess.run([binaries / "sonar-process", sea, "--config", config, "--out", folder / "sea", "--messages",
                    "--topics", "beam.audio", "--no-pictures"], check=True, stdout=subprocess.DEVNULL)
    code, said = export(folder / "sea/messages.sonar-spectra", folder / "sea.h5")
    assert code == 0, said
    with h5py.File(folder / "sea.h5") as file:
        check_levels(1e6 * file["time_data"][200:-200].T.astype(float), (60, 115))


def check_tracks(folder):
    """The numbers of one run are those of the next, with other topics, and in other rows."""
    config, sea = folder / "config.yaml", folder / "long.f32"
    subprocess.run([binaries / "sonar-sim", "-c", config, "-s", folder / "scene.yaml", "--duration", "10", "--file", sea],
                   check=True, stdout=subprocess.DEVNULL)
    process = [binaries / "sonar-process", sea, "--no-pictures", "--out"]
    subprocess.run([*process, folder / "tracks", "--config", config], check=True, stdout=subprocess.DEVNULL)
    tracks = json.loads((folder / "tracks/tracks.json").read_text())
    number = {deg: next(t["number"] for t in reversed(tracks) if abs(t["az_deg"] - deg) < 1) for deg in SHIPS}
    assert number[60] != number[115], number
    follow = folder / "follow.yaml"
    follow.write_text(config.read_text().replace("az_deg: [60, 115]", f"track: [{number[115]}, {number[60]}]"))
    subprocess.run([*process, folder / "follow", "--config", follow, "--messages", "--topics", "beam.audio"], check=True,
                   stdout=subprocess.DEVNULL)
    code, said = export(folder / "follow/messages.sonar-spectra", folder / "follow.h5")
    assert code == 0 and f"beams: track{number[115]}, track{number[60]}" in said, said
    with h5py.File(folder / "follow.h5") as file:
        check_levels(1e6 * file["time_data"][-5 * HOP:-200].T.astype(float), (115, 60))


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / "config.yaml").write_text(CONFIG.replace("FOLDER", name))
        (folder / "scene.yaml").write_text(SCENE)
        first, live = check_live(folder)
        recorded = join(folder)
        check_export(folder, recorded, first, live)
        check_empty(folder, recorded)
        check_streams(folder, recorded)
        check_process(folder)
        check_tracks(folder)
    print("beams: each ship in its own, live, moved and as sound")


if __name__ == "__main__":
    main()
