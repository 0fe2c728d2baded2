#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""sonar-export: its files are read by h5py or chunk by chunk, and compared with the samples
that were put in. Exit 77: skipped."""
import json
import pathlib
import struct
import subprocess
import sys
import tempfile

try:
    import h5py
    import numpy as np
except ImportError as missing:
    print(f"skipped: the test needs python3-numpy and python3-h5py ({missing})")
    sys.exit(77)

source, binaries = (pathlib.Path(name).resolve() for name in sys.argv[1:3])
FS_HZ, CHANNELS, SAMPLES, GAIN_DB = 4000, 3, 20011, -170.0
CONFIG = f"""
schema: 1
array: {{id: 1, name: test-line, geometry: {{line: {{sensors: 3, spacing_m: 0.75}}}}, gain_db: {GAIN_DB}}}
sound_speed_mps: 1500
fs_hz: {FS_HZ}
ingest: {{endpoints: ["ipc:///tmp/nobody"]}}
dft: {{length: 1024}}
cbf: {{band_hz: [400, 950]}}
output: {{endpoint: "ipc:///tmp/nobody-either"}}
"""


def export(*arguments):
    done = subprocess.run([binaries / "sonar-export", *map(str, arguments)], capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr


def expect(what, answer, code, *words):
    got, text = answer
    missing = [word for word in words if word not in text]
    assert got == code and not missing, f"{what}: left with {got}, said {text!r}"


def record(folder, name, samples, datatype):
    data = folder / f"{name}.sigmf-data"
    samples.tofile(data)
    meta = {"global": {"core:datatype": datatype, "core:sample_rate": FS_HZ, "core:num_channels": CHANNELS,
                       "core:version": "1.0.0"},
            "captures": [{"core:sample_start": 0, "core:datetime": "2026-01-01T00:00:00Z"}], "annotations": []}
    data.with_suffix(".sigmf-meta").write_text(json.dumps(meta))
    return data


def read_pcm(path):
    """By the chunks of a WAV file: Python's own module does not know the extensible header."""
    raw, at, chunk = path.read_bytes(), 12, {}
    assert raw[:4] == b"RIFF" and raw[8:12] == b"WAVE"
    while at + 8 <= len(raw):
        name, size = struct.unpack_from("<4sI", raw, at)
        chunk[name] = raw[at + 8:at + 8 + size]
        at += 8 + size + size % 2
    kind, channels, rate = struct.unpack_from("<HHI", chunk[b"fmt "])
    assert kind in (1, 0xfffe) and channels == CHANNELS and rate == FS_HZ, (kind, channels, rate)
    return np.frombuffer(chunk[b"data"], "<i2").reshape(-1, CHANNELS)


def read_hdf5(path):
    with h5py.File(path) as file:
        data = file["time_data"]
        assert data.attrs["sample_freq"] == FS_HZ and data.dtype == np.float32, dict(data.attrs)
        return data[:]


def main():
    random = np.random.default_rng(1)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        counts = random.integers(-32768, 32768, (SAMPLES, CHANNELS)).astype("<i2")
        floats = (random.standard_normal((SAMPLES, CHANNELS)) * 1e6).astype("<f4")
        whole, real = record(folder, "whole", counts, "ri16_le"), record(folder, "real", floats, "rf32_le")
        config = folder / "config.yaml"
        config.write_text(CONFIG)

        expect("wav", export(whole, folder / "a.wav"), 0, f"{SAMPLES} samples of 3 channels")
        assert np.array_equal(read_pcm(folder / "a.wav"), counts)
        expect("part", export(whole, folder / "part.wav", "--start", 1, "--duration", 0.5), 0)
        assert np.array_equal(read_pcm(folder / "part.wav"), counts[FS_HZ:FS_HZ + FS_HZ // 2])
        # an exported file can be played
        expect("float wav", export(real, folder / "real.wav"), 0)
        expect("back", export(folder / "real.wav", folder / "real.h5"), 0)
        assert np.array_equal(read_hdf5(folder / "real.h5"), floats)
        expect("hdf5", export(whole, folder / "a.h5"), 0, "in counts")
        assert np.array_equal(read_hdf5(folder / "a.h5"), counts)
        expect("pascals", export(whole, folder / "pa.hdf5", "--config", config), 0, "in pascals")
        pascals = counts * 10 ** (-GAIN_DB / 20) * 1e-6
        assert np.allclose(read_hdf5(folder / "pa.hdf5"), pascals, rtol=1e-6)

        expect("there already", export(whole, folder / "a.wav"), 2, "a.wav", "exists")
        expect("there already", export(whole, folder / "a.h5"), 2, "a.h5", "exists already")
        assert np.array_equal(read_hdf5(folder / "a.h5"), counts)
        expect("ending", export(whole, folder / "a.mp3"), 2, ".wav, .rf64, .h5 and .hdf5")
        gap = record(folder, "gap", counts, "ri16_le")
        meta = json.loads(gap.with_suffix(".sigmf-meta").read_text())
        meta["captures"][0]["core:global_index"] = 5
        meta["captures"].append({"core:sample_start": FS_HZ, "core:global_index": FS_HZ + 6})
        gap.with_suffix(".sigmf-meta").write_text(json.dumps(meta))
        expect("gap", export(gap, folder / "gap.wav"), 2, "1.000000 s", "there is a gap")
        expect("up to the gap", export(gap, folder / "gap.wav", "--duration", 1), 0)
        assert np.array_equal(read_pcm(folder / "gap.wav"), counts[:FS_HZ])
        expect("nothing", export(whole, folder / "b.wav", "--start", 6), 2, "nothing lies between")
        expect("no recording", export(folder / "none.sigmf-meta", folder / "b.wav"), 2, "none.sigmf-meta")
        expect("one argument", export(whole), 2, "a recording and an output")
        config.write_text(CONFIG.replace(f", gain_db: {GAIN_DB}", ""))
        expect("no calibration", export(whole, folder / "b.h5", "-c", config), 2, "no calibration")
        config.write_text(CONFIG.replace("sensors: 3", "sensors: 4"))
        expect("channels", export(whole, folder / "b.h5", "-c", config), 2, "3 channels", "has 4")
        # a recording that ends early leaves no incomplete file
        data = folder / "whole.sigmf-data"
        expect("no room", (subprocess.run(f"ulimit -f 64; trap '' XFSZ; exec '{binaries}/sonar-export' "
                                          f"'{data}' '{folder}/full.wav'", shell=True, capture_output=True,
                                          executable="/bin/bash").returncode, ""), 1)
        assert not (folder / "full.wav").exists()
    print("exports: all as it should be")


if __name__ == "__main__":
    main()
