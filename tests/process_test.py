#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""sonar-process: its messages are those of the daemon that sonar-replay feeds with the same file, to the byte; its
files have what the messages say; mistakes are explained; what is done is readable when it is stopped.
process_test.py SOURCE BINARIES [NAME...]. Exit 77: skipped."""
import csv
import ctypes
import json
import os
import pathlib
import shlex
import signal
import struct
import subprocess
import sys
import tempfile
import time

try:
    import h5py
    import numpy as np
    import zmq
except ImportError as missing:
    print(f"skipped: the test needs python3-numpy, python3-h5py and python3-zmq ({missing})")
    sys.exit(77)

source, binaries = (pathlib.Path(name).resolve() for name in sys.argv[1:3])
sys.path.insert(0, str(source / "tools/python"))
import sonar  # noqa: E402

FS_HZ, SENSORS, LENGTH, HOP, SECOND = 4000, 6, 1024, 512, 10**9
PATIENCE_MS = 60000
# Everything that a window brings.
TOPICS = ["cbf.azimuth", "cbf.nearfield", "cbf.lofar", "mvdr.azimuth", "mvdr.spectrum", "mvdr.nearfield",
          "mvdr.eigenvalues", "music.azimuth", "element.psd", "element.missing", "element.position",
          "cbf.normalised", "mvdr.normalised", "cbf.sped", "detections", "tracks"]
# What depends on when and by whom it was computed.
OWN = {"run", "latency_us", "seq"}
CONFIG = f"""schema: 1
array: {{id: 1, name: test-line, geometry: {{line: {{sensors: {SENSORS}, spacing_m: 0.75}}}}, heading_deg: 20}}
sound_speed_mps: 1500
fs_hz: {FS_HZ}
ingest: {{endpoints: ["ipc://FOLDER/in"], overload: block}}
dft: {{length: {LENGTH}, hop: {HOP}}}
cbf: {{band_hz: [400, 950], ranges_m: [50, 200]}}
mvdr: {{enabled: true, band_hz: [400, 950], length: 256, hop: 128, snapshots: 12, nearfield: true, music: 1}}
detections: {{threshold_db: 3}}
output: {{endpoint: "ipc://FOLDER/out", high_water_mark: 10000}}
runtime: {{threads: 1, backend: cpu}}
"""


LINE = np.array([((i - (SENSORS - 1) / 2) * 0.75, 0) for i in range(SENSORS)])


def sea(seconds, seed=1, at=LINE, tone=900):
    """Noise and a tone at 60 degrees to the right of the axis, 16 bits, [sample][channel]; sensors at (x, y)."""
    rng = np.random.default_rng(seed)
    t = np.arange(int(seconds * FS_HZ))[:, None] / FS_HZ
    late = at @ [np.cos(np.radians(60)), np.sin(np.radians(60))] / 1500
    return np.rint(rng.standard_normal((len(t), SENSORS)) * 300 + tone * np.sin(2 * np.pi * 700 * (t + late))).astype("<i2")


def wav(path, samples, fs_hz=FS_HZ):
    channels = samples.shape[1]
    form = struct.pack("<4sIHHIIHH", b"fmt ", 16, 1, channels, fs_hz, 2 * channels * fs_hz, 2 * channels, 16)
    body = b"WAVE" + form + struct.pack("<4sI", b"data", samples.nbytes) + samples.tobytes()
    path.write_bytes(struct.pack("<4sI", b"RIFF", len(body)) + body)
    return path


def process(folder, *arguments):
    command = [binaries / "sonar-process", *map(str, arguments)]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=240,
                          env={**os.environ, "PATH": f"/usr/bin:{os.environ['PATH']}", "MPLCONFIGDIR": str(folder)})
    return done.returncode, done.stdout + done.stderr


def expect(what, answer, code, *words):
    got, text = answer
    missing = [word for word in words if word not in text]
    assert got == code and not missing, f"{what}: left with {got}, said {text!r}, not {missing}"


def config_in(folder, text=CONFIG):
    path = folder / "array.yaml"
    path.write_text(text.replace("FOLDER", str(folder)))
    return path


def kept_messages(path):
    """(topic, header, body) of a .sonar-spectra file."""
    data, at, found = path.read_bytes(), 0, []
    while at < len(data):
        mark, version, head, topic, header, body = struct.unpack_from("<4sHHIIQ", data, at)
        assert (mark, version, head) == (b"SNRM", 1, 40)
        ends = np.cumsum([at + head, topic, header, body])
        found.append(tuple(data[a:b] for a, b in zip(ends, ends[1:])))
        at = ends[-1]
    return found


def published(folder, config, count, *replay):
    """The first `count` messages that the daemon publishes of a recording."""
    sub = zmq.Context.instance().socket(zmq.SUB)
    sub.rcvhwm = 0
    for topic in [*TOPICS, "status"]:
        sub.subscribe(topic)
    sub.connect(f"ipc://{folder}/out")
    found = []
    with open(folder / "log", "w") as log:
        daemon = subprocess.Popen([binaries / "sonard", config], stderr=log, stdout=log)
        try:
            assert sub.poll(PATIENCE_MS), (folder / "log").read_text()  # a status: it has the subscriptions
            tool = subprocess.Popen([binaries / "sonar-replay", *map(str, replay), "--config", config, "--rate", "max",
                                     "--epoch", "1"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            while len(found) < count:
                assert sub.poll(PATIENCE_MS), f"{len(found)} of {count} messages"
                message = sub.recv_multipart()
                if message[0] != b"status":
                    found.append(tuple(message))
            assert tool.wait(60) == 0
        finally:
            daemon.terminate()
            code = daemon.wait()
        assert code == 0, (code, (folder / "log").read_text()[-3000:])
    sub.close()
    return found


def comparable(messages):
    """By topic; a header without what may differ."""
    by_topic = {}
    for topic, header, body in messages:
        fields = {name: value for name, value in json.loads(header).items() if name not in OWN}
        by_topic.setdefault(topic.decode(), []).append((fields, body))
    return by_topic


def expect_same(here, there):
    assert set(here) == set(there) == set(TOPICS), (sorted(here), sorted(there))
    for topic, messages in here.items():
        assert len(messages) == len(there[topic]) > 0, (topic, len(messages), len(there[topic]))
        for (mine, array), (daemons, its_array) in zip(messages, there[topic]):
            different = {name: (mine.get(name), daemons.get(name)) for name in {*mine, *daemons}
                         if mine.get(name) != daemons.get(name)}
            assert not different, (topic, different)
            assert array == its_array, (topic, mine["window"])


def compare(folder, config, files, *options):
    """Of the same file, by both ways."""
    out = folder / "kept"
    expect("process", process(folder, *files, "-c", config, "-o", out, "--messages", "--no-pictures",
                              "--topics", ",".join(TOPICS), *options), 0, "windows", "times real time")
    kept = kept_messages(out / "messages.sonar-spectra")
    expect_same(comparable(kept), comparable(published(folder, config, len(kept), *files, *options)))
    return kept, out


# ---- the tests


def try_bytes(folder):
    """One file, with a date and without; and several."""
    config = config_in(folder)
    file = wav(folder / "sea.wav", sea(5))
    kept, _ = compare(folder, config, [file], "--utc", "2026-01-31T12:00:00Z")
    windows = 1 + (5 * FS_HZ - LENGTH) // HOP
    azimuths = [json.loads(header) for topic, header, _ in kept if topic == b"cbf.azimuth"]
    assert [h["window"] for h in azimuths] == list(range(windows)), len(azimuths)


def try_gaps(folder):
    """A SigMF set with a jump and with channels that lack samples."""
    config = config_in(folder)
    data = folder / "set.sigmf-data"
    sea(6, 2).tofile(data)
    meta = {"global": {"core:datatype": "ri16_le", "core:sample_rate": FS_HZ, "core:num_channels": SENSORS,
                       "core:version": "1.2.0"},
            "captures": [{"core:sample_start": 0, "core:global_index": 100},
                         {"core:sample_start": 12000, "core:global_index": 12100 + 5000}],
            "annotations": [{"core:sample_start": 3000, "core:sample_count": 100, "core:label": "missing",
                             "sonar:channels": [4, 2]}]}
    data.with_suffix(".sigmf-meta").write_text(json.dumps(meta))
    kept, _ = compare(folder, config, [data])
    assert any("gap" in json.loads(header)["flags"] for topic, header, _ in kept if topic == b"cbf.azimuth")


def try_results(folder):
    """The files against the messages."""
    config, out = config_in(folder), folder / "sea-results"
    file = wav(folder / "sea.wav", sea(20))
    expect("process", process(folder, file, "-c", config, "--messages", "--no-pictures", "--utc", "2026-01-31T12:00:00Z"),
           0, "sea-results: ")
    kept = [(topic.decode(), json.loads(header), body) for topic, header, body in
            kept_messages(out / "messages.sonar-spectra")]
    begin_ns = int(np.datetime64("2026-01-31T12:00:00", "ns").astype(int))
    with h5py.File(out / "spectra.h5") as h5:
        assert set(h5) == {"cbf.azimuth", "mvdr.azimuth", "lofargram"}, set(h5)
        for name in ("cbf.azimuth", "mvdr.azimuth"):
            mine = [(header, body) for topic, header, body in kept if topic == name]
            power, group = h5[name]["power"], h5[name]
            assert power[()].tobytes() == b"".join(body for _, body in mine), name
            assert np.array_equal(group["window"], [h["window"] for h, _ in mine])
            assert np.array_equal(group["utc_ns"], [h["utc_ns"] for h, _ in mine])
            assert group["utc_ns"][0] == begin_ns
            assert np.allclose(group["time_s"], np.arange(len(mine)) * HOP / FS_HZ)
            assert power.dims[0][0] == group["time_s"] and power.dims[1][0] == group["azimuth"]
            assert np.allclose(group["azimuth"], mine[0][0]["axes"][0]["values"])
            assert power.attrs["unit"] == b"counts^2" and group["azimuth"].attrs["unit"] == b"deg"
        check_lofargram(h5["lofargram"], [(h, body) for topic, h, body in kept if topic == "cbf.lofar"])
    read = list(sonar.spectra(out / "spectra.h5", "mvdr.azimuth"))
    mine = [(header, body) for topic, header, body in kept if topic == "mvdr.azimuth"]
    assert len(read) == len(mine) and all(
        m.data.tobytes() == body and m.utc == np.datetime64(h["utc_ns"], "ns") and m.flags == h["flags"]
        for m, (h, body) in zip(read, mine))
    check_contacts(out, [header for topic, header, _ in kept if topic == "detections"])
    check_tracks(out, [header for topic, header, _ in kept if topic == "tracks"])
    expect("there already", process(folder, file, "-c", config), 2, "sea-results/contacts.csv", "exists")


def check_lofargram(group, messages):
    loudest = []
    for header, body in messages:
        power = np.frombuffer(body, "<f4").reshape(header["shape"])
        best = power.sum(axis=0, dtype=float).argmax()
        loudest.append((header["axes"][1]["values"][best], power[:, best]))
    assert np.allclose(group["az_deg"], [az for az, _ in loudest])
    assert np.array_equal(group["power"], np.array([row for _, row in loudest]))
    step = messages[0][0]["axes"][0]
    assert np.allclose(group["frequency"], step["start"] + step["step"] * np.arange(group["power"].shape[1]))
    tone_hz = group["frequency"][group["power"][()].sum(axis=0).argmax()]
    assert abs(tone_hz - 700) <= FS_HZ / LENGTH and abs(np.median(group["az_deg"]) - 60) < 8, tone_hz


def listed_rows(out, name, wanted):
    """Rows of the table and objects of the JSON; both have the same window's fields as the headers in `wanted`."""
    with open(out / f"{name}.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    objects = json.loads((out / f"{name}.json").read_text())
    assert len(rows) == len(objects) == len(wanted), (name, len(rows), len(objects), len(wanted))
    for row, object_, (header, item) in zip(rows, objects, wanted):
        assert int(row["window"]) == object_["window"] == header["window"]
        assert row["bearing_reference"] == object_["bearing_reference"] == header["bearing_reference"]
        assert (row["utc"] or None) == object_["utc"] and (object_["utc"] is None) == (header["utc_ns"] is None)
        if row["utc"]:
            assert abs(int(np.datetime64(row["utc"].rstrip("Z"), "ns").astype(int)) - header["utc_ns"]) < 1000, row
        assert float(row["time_s"]) == object_["time_s"] and abs(object_["time_s"] - header["sample_index"] / FS_HZ) < 1e-6
        assert all(object_[member] == value for member, value in item.items()), (object_, item)
    return rows


def check_cells(row, names, values):
    """names: column of each member that the table has."""
    for member, column in names.items():
        value, cell = values[member], row[column]
        if value is None or isinstance(value, (str, list)):
            words = value if isinstance(value, list) else [value or ""]
            assert cell == "+".join(f"{word:.10g}" if isinstance(word, float) else word for word in words), (column, cell, value)
        else:
            assert abs(float(cell) - value) <= 1e-9 * abs(value), (column, cell, value)


def check_contacts(out, headers):
    wanted = [(h, d) for h in headers for d in h["detections"]]
    rows = listed_rows(out, "contacts", wanted)
    assert len(rows) > 20 and list(rows[0]) == [
        "utc", "window", "az_deg", "level_db", "snr_db", "range_m", "source", "time_s", "bearing_deg", "mirror_deg", "width_deg",
        "contact", "bearing_sigma_deg", "bearing_reference"], rows[:1]
    for row, (_, detection) in zip(rows, wanted):
        check_cells(row, {name: name for name in detection if name in row}, detection)


OF_TRACK = ("number", "state", "existence", "az_deg", "snr_db", "age_s", "unheard_s", "contact", "rests_on",
            "tones_hz")
OF_BEARING = ("bearing_deg", "bearing_sigma_deg", "rate_deg_per_min", "rate_sigma_deg_per_min", "side", "probability")


def check_tracks(out, headers):
    """Returns the rows."""
    wanted = [(h, t) for h in headers for t in h["tracks"]]
    rows = listed_rows(out, "tracks", wanted)
    columns = (out / "tracks.csv").read_text().splitlines()[0].split(",")
    assert set(columns) == {"utc", "window", "time_s", "bearing_reference", *OF_TRACK, *OF_BEARING,
                            *(f"mirror_{name}" for name in OF_BEARING)} and len(columns) == 26, columns
    for row, (_, track) in zip(rows, wanted):
        check_cells(row, {name: name for name in OF_TRACK}, track)
        for place, before in enumerate(("", "mirror_")):
            bearing = dict(enumerate(track["bearings"])).get(place, dict.fromkeys(OF_BEARING))
            check_cells(row, {name: before + name for name in OF_BEARING}, bearing)
    check_debrief((out / "tracks.rep").read_text().splitlines(), wanted)
    return rows


def check_debrief(lines, wanted):
    """Fields in the order in which Debrief's class ImportSensor2 reads them."""
    wanted = [(h, t) for h, t in wanted if t["state"] == "confirmed" and t["contact"] is not None
              and h["utc_ns"] and h["bearing_reference"] == "true"]
    assert len(lines) == len(wanted), (lines[:1], len(lines), len(wanted))
    for line, (header, track) in zip(lines, wanted):
        fields, comment = shlex.split(line.split(" // ")[0]), line.split(" // ")[1]
        assert comment == f"sigma {track['bearings'][0]['bearing_sigma_deg']:.3f} deg", (line, track)
        kind, date, time_, host, symbology, position, *bearings, frequency, range_, sensor, label = fields
        assert (kind, position, range_) == (";SENSOR2:", "NULL", "NULL") and len(bearings) == 2, line
        assert frequency == (f"{track['tones_hz'][0]:.2f}" if track["tones_hz"] else "NULL"), line
        assert host == header["array"].replace('"', "_") and sensor == f"track_{track['number']}" and label == str(track["number"]), line
        assert len(symbology) == 2 and symbology[0] == "@" and "A" <= symbology[1] <= "K", line
        text = f"{date[:4]}-{date[4:6]}-{date[6:]}T{time_[:2]}:{time_[2:4]}:{time_[4:]}"
        assert len(date) == 8 and len(time_) == 10, line
        assert abs(int(np.datetime64(text, "ns").astype(int)) - header["utc_middle_ns"]) <= 500000, (line, header["utc_middle_ns"])
        for place, field in enumerate(bearings):
            if place < len(track["bearings"]):
                beside = float(field) - track["bearings"][place]["bearing_deg"]
                assert 0 <= float(field) < 360 and abs((beside + 180) % 360 - 180) < 0.000501, (line, track)
            else:
                assert field == "NULL", line


def tracks_of(folder, name, config, samples, *options):
    """The rows, and the lines for Debrief."""
    out = folder / name
    expect(name, process(folder, wav(folder / f"{name}.wav", samples), "-c", config_in(folder, config), "-o", out, "--messages",
                         "--no-pictures", *options), 0)
    headers = [json.loads(header) for topic, header, _ in kept_messages(out / "messages.sonar-spectra") if topic == b"tracks"]
    return check_tracks(out, headers), (out / "tracks.rep").read_text().splitlines()


def try_tracks(folder):
    """Of a line with both sides, of an array without sides; without heading, date, contacts or the topic."""
    dated = ("--utc", "2026-12-31T23:59:50Z")
    samples = sea(20)
    samples[10 * FS_HZ:11 * FS_HZ] = sea(1, 2, tone=0)
    with_tones = CONFIG.replace("test-line", "my line").replace("threshold_db: 3", "threshold_db: 3, tones: true")
    rows, lines = tracks_of(folder, "line", with_tones, samples, *dated)
    tone = [row for row in rows if abs(float(row["az_deg"]) - 60) < 8 and row["state"] == "confirmed"]
    assert len(tone) > 100 and len({row["number"] for row in tone}) == 1, "the number lasts"
    assert any(row["contact"] == "" for row in tone), "a window in which it was not heard"
    last = tone[-1]
    assert abs(float(last["tones_hz"]) - 700) < 8 and " 70" in lines[-1].split(" // ")[0], (last, lines[-1])
    assert (last["side"], last["mirror_side"]) == ("starboard", "port"), last
    assert abs(float(last["bearing_deg"]) - 80) < 3 and abs(float(last["mirror_bearing_deg"]) - 320) < 3, last
    assert any(";SENSOR2: 20270101 0000" in line and '"my line"' in line for line in lines) and len(lines) > 100
    ring = np.array([(0.9 * np.cos(a), 0.9 * np.sin(a)) for a in np.radians(60) * np.arange(SENSORS)])
    positions = ", ".join(f"[{x:.6f}, {y:.6f}, 0]" for x, y in ring)
    flat = CONFIG.replace(f"{{line: {{sensors: {SENSORS}, spacing_m: 0.75}}}}", f"{{positions: {{list: [{positions}]}}}}")
    flat = flat.replace("test-line", "'a \"ring\"'")
    rows, lines = tracks_of(folder, "ring", flat, sea(10, at=ring), *dated)
    assert len(lines) > 30 and all(row["mirror_bearing_deg"] == row["side"] == "" for row in rows)
    assert abs(float(rows[-1]["bearing_deg"]) - 80) < 3, rows[-1]
    rows, lines = tracks_of(folder, "headless", CONFIG.replace(", heading_deg: 20", ""), sea(10), *dated)
    assert rows and not lines and {row["bearing_reference"] for row in rows} == {"array"}
    rows, lines = tracks_of(folder, "undated", CONFIG, sea(10))
    assert rows and not lines and not any(row["utc"] for row in rows)
    rows, lines = tracks_of(folder, "empty", CONFIG.replace("threshold_db: 3", "threshold_db: 40, faint_db: 0"), sea(3), *dated)
    assert not rows and not lines and json.loads((folder / "empty/tracks.json").read_text()) == []
    config = config_in(folder, CONFIG.replace("output: {", "output: {topics: [cbf.azimuth, detections], "))
    expect("no tracks", process(folder, folder / "line.wav", "-c", config, "-o", "none", "--no-pictures"), 0)
    assert {path.name for path in (folder / "none").iterdir()} == {"spectra.h5", "contacts.csv", "contacts.json"}
    (folder / "there").mkdir()
    (folder / "there/tracks.json").write_text("mine")
    expect("there already", process(folder, folder / "line.wav", "-c", config_in(folder), "-o", "there"), 2, "there/tracks.json")
    assert [path.name for path in (folder / "there").iterdir()] == ["tracks.json"], "what it made is removed, and only that"


def try_mistakes(folder):
    config = config_in(folder)
    file = wav(folder / "sea.wav", sea(3))
    four = wav(folder / "four.wav", sea(3)[:, :4])
    eight = wav(folder / "eight.wav", np.hstack([sea(3), sea(3)[:, :2]]))
    fast = wav(folder / "fast.wav", sea(3), 8000)
    short = wav(folder / "short.wav", sea(0.1))
    for words, *arguments in (
            (["no recording", "--example"],),
            (["--config is missing", "hydrophones"], file),
            (["none.wav"], "none.wav", "-c", config),
            (["4 channels, but the configuration has 6", "--side-by-side"], four, "-c", config),
            (["8 channels, but the configuration has 6", "array.channel_count"], eight, "-c", config),
            (["10 channels", "in the order of the array's channels"], file, four, "--side-by-side", "-c", config),
            (["8000 Hz, but the configuration has 4000 Hz", "--fs 4000"], fast, "-c", config),
            (["shorter than a window", "1024"], short, "-c", config),
            (["nothing to process"], file, "-c", config, "--start", "9"),
            (["--topics", "cbf.nearfield"], file, "-c", config, "--topics", "cbf.azimuth,sea"),
            (["no FILE"], file, "--example", folder / "e"),
            (["cannot make the folder"], file, "-c", config, "-o", folder / "no/such/folder")):
        expect(words, process(folder, *arguments), 2, *words)
        assert not list(folder.glob("*-results")), "nothing is left of what was not begun"
    expect("right after all", process(folder, fast, "-c", config, "--fs", 4000, "--no-pictures"), 0)
    two = [wav(folder / f"part-{i}.wav", sea(3)[:n, 3 * i:3 * i + 3]) for i, n in enumerate((9000, 12000))]
    expect("of different length", process(folder, *two, "--side-by-side", "-c", config, "--no-pictures"), 0,
           "part-1.wav has 12000 samples, of which 9000 are", "of 2.2 s")


def power_of(folder, name, *arguments):
    """The CBF's bearing-time record of files, and what was said."""
    answer = process(folder, *arguments, "-c", config_in(folder), "-o", name, "--no-pictures")
    expect(name, answer, 0)
    with h5py.File(folder / name / "spectra.h5") as h5:
        rows = h5["cbf.azimuth"]
        return rows["power"][()], rows["sample_index"][()], rows["utc_ns"][()], rows["flags"][()], answer[1]


def try_formats(folder):
    """The same samples in other files give the same bytes."""
    samples = sea(4)
    wanted = power_of(folder, "wav", wav(folder / "sea.wav", samples))[0]
    wide = samples.astype("<i4")
    for kind, data in (("s16le", samples), ("s16be", samples.astype(">i2")), ("s32be", wide.astype(">i4")),
                       ("f32le", samples.astype("<f4")), ("f64be", samples.astype(">f8")),
                       ("s24le", wide.view("u1").reshape(-1, 4)[:, :3])):
        (folder / "sea.bin").write_bytes(data.tobytes())
        power, _, _, _, said = power_of(folder, kind, "sea.bin", "--raw", f"{kind}:{SENSORS}:{FS_HZ}")
        assert np.array_equal(power, wanted) and "whole samples" not in said, kind
    (folder / "sea.bin").write_bytes(samples.tobytes() + b"abc")
    power, _, _, _, said = power_of(folder, "odd", "sea.bin", "--raw", f"s16le:{SENSORS}:{FS_HZ}")
    assert np.array_equal(power, wanted) and f"are not whole samples of {SENSORS} channels" in said, said
    for dtype in ("i2", "i4", "f4", "f8"):
        with h5py.File(folder / "sea.h5", "w") as h5:
            h5.create_dataset("time_data", data=samples.astype(dtype)).attrs["sample_freq"] = float(FS_HZ)
        assert np.array_equal(power_of(folder, f"hdf5-{dtype}", "sea.h5")[0], wanted), dtype
    config = config_in(folder)
    for wrong in ("s16", "s16le:6", "s16le:0:4000", "s16le:6:x", "s16le:2000:4000", "u16le:6:4000"):
        expect(wrong, process(folder, "sea.bin", "-c", config, "--raw", wrong), 2, wrong, "TYPE:CHANNELS:RATE")
    for shape, attribute, words in (((100,), "sample_freq", "[sample][channel]"), ((100, 6), "rate", "sample_freq above 0")):
        with h5py.File(folder / "sea.h5", "w") as h5:
            h5.create_dataset("time_data", data=np.zeros(shape)).attrs[attribute] = 4000.0
        expect(words, process(folder, "sea.h5", "-c", config), 2, words)
    with h5py.File(folder / "sea.h5", "w") as h5:
        h5["samples"] = samples
    expect("no time_data", process(folder, "sea.h5", "-c", config), 2, "no /time_data", "Acoular")
    (folder / "sea.h5").write_bytes(b"something else")
    expect("no HDF5", process(folder, "sea.h5", "-c", config), 2, "it is not HDF5")


FLAC, RF64 = 0x170000, 0x220000  # libsndfile's


def sound(path, samples, kind, bytes_each):
    """A file as libsndfile writes it."""
    class Info(ctypes.Structure):
        _fields_ = [("frames", ctypes.c_int64), *((name, ctypes.c_int) for name in
                                                  ("samplerate", "channels", "format", "sections", "seekable"))]
    library = ctypes.CDLL("libsndfile.so.1")
    library.sf_open.restype = ctypes.c_void_p
    library.sf_writef_int.restype = ctypes.c_int64
    file = ctypes.c_void_p(library.sf_open(str(path).encode(), 0x20, ctypes.byref(
        Info(0, FS_HZ, samples.shape[1], kind | bytes_each, 0, 0))))
    assert file, path
    wide = np.ascontiguousarray(samples.astype("<i4") << (32 - 8 * bytes_each))
    assert library.sf_writef_int(file, ctypes.c_void_p(wide.ctypes.data), ctypes.c_int64(len(wide))) == len(wide)
    assert library.sf_close(file) == 0
    return path


def try_flac(folder):
    """FLAC of several channels, of 16 and 24 bits; without a length, cut off, damaged, and with a wrong length."""
    samples = sea(6)
    wanted = power_of(folder, "wav", wav(folder / "sea.wav", samples))[0]
    file = sound(folder / "sea.flac", samples, FLAC, 2)
    assert file.stat().st_size < samples.nbytes
    power, _, _, _, said = power_of(folder, "flac", file)
    assert np.array_equal(power, wanted) and "truncated" not in said, said
    (folder / "sea.bin").write_bytes((samples.astype("<i4") * 200).view("u1").reshape(-1, 4)[:, :3].tobytes())
    power = power_of(folder, "wide", sound(folder / "wide.flac", samples.astype("i4") * 200, FLAC, 3))[0]
    assert np.array_equal(power, power_of(folder, "raw", "sea.bin", "--raw", f"s24le:{SENSORS}:{FS_HZ}")[0])
    power = power_of(folder, "late", file, "--start", "1.024")[0]
    assert np.array_equal(power, power_of(folder, "late wav", folder / "sea.wav", "--start", "1.024")[0])
    whole, size = file.read_bytes(), file.stat().st_size
    assert whole[:8] == b"fLaC\x00\x00\x00\x22" and struct.unpack_from(">I", whole, 22)[0] == len(samples)

    def with_length(count):
        return whole[:22] + struct.pack(">I", count) + whole[26:]

    for name, data, words in (("endless", with_length(0), []), ("long", with_length(10**9), ["1000000000 samples, and 24000"]),
                              ("cut", whole[:size * 2 // 3], ["24000 samples", "truncated"]),
                              ("cut endless", with_length(0)[:size * 2 // 3], [])):
        (folder / f"{name}.flac").write_bytes(data)
        power, at, _, _, said = power_of(folder, name, folder / f"{name}.flac")
        assert all(word in said for word in words) and ("truncated" in said) == bool(words), (name, said)
        assert len(power) == len(wanted) if "cut" not in name else len(wanted) // 2 <= len(power) < len(wanted), (name, len(power))
        assert np.array_equal(power, wanted[:len(power)]), name
    config = config_in(folder)
    spoilt = bytearray(whole)
    spoilt[size // 2] ^= 0x10
    (folder / "spoilt.flac").write_bytes(spoilt)
    expect("spoilt", process(folder, "spoilt.flac", "-c", config, "-o", "spoilt", "--no-pictures"), 1, "spoilt.flac", "at sample",
           "damaged")
    with h5py.File(folder / "spoilt/spectra.h5") as h5:
        power = h5["cbf.azimuth/power"][()]
        assert len(power) > 5 and np.array_equal(power, wanted[:len(power)])
    for name, data in (("short", whole[:100]), ("empty", b""), ("other", b"fLaC" + bytes(1000))):
        (folder / f"{name}.flac").write_bytes(data)
        expect(name, process(folder, f"{name}.flac", "-c", config), 2, f"{name}.flac")


def rf64(path, samples, data=None, riff=None, inner=0xffffffff, mark=b"ds64"):
    """RF64 by hand: the sizes in ds64, and that of the chunk itself."""
    bytes_each = samples.dtype.itemsize * SENSORS
    form = struct.pack("<4sIHHIIHH", b"fmt ", 16, 1, SENSORS, FS_HZ, bytes_each * FS_HZ, bytes_each, 16)
    data = samples.nbytes if data is None else data
    head = struct.pack("<4sI4s4sIQQQI", b"RF64", 0xffffffff, b"WAVE", mark, 28, data + 72 if riff is None else riff, data,
                       data // bytes_each, 0) + form + struct.pack("<4sI", b"data", inner)
    path.write_bytes(head + samples.tobytes())
    return path, len(head)


def try_rf64(folder):
    """RF64 as libsndfile writes it; samples beyond 4 GiB of a file with holes; sizes that are wrong."""
    samples = sea(6)
    wanted = power_of(folder, "wav", wav(folder / "sea.wav", samples))[0]
    power, _, _, _, said = power_of(folder, "rf64", sound(folder / "sea.rf64", samples, RF64, 2))
    assert np.array_equal(power, wanted) and "truncated" not in said, said
    first = ((1 << 32) // 12 // 64000 + 2) * 64000  # beyond 4 GiB, a whole second and a whole hop
    file, head = rf64(folder / "large.rf64", samples[:0], 12 * (first + len(samples)))
    with open(file, "r+b") as large:
        large.seek(head + 12 * first)
        large.write(samples.tobytes())
    assert file.stat().st_size > 1 << 32 and file.stat().st_blocks * 512 < 1 << 24
    power, at, _, _, said = power_of(folder, "large", file, "--start", first // FS_HZ)
    assert np.array_equal(power, wanted) and "truncated" not in said, said
    for name, sizes, words in (("both", {"data": 1 << 40}, ["truncated", "24000 samples are left"]),
                               ("riff", {"riff": samples.nbytes + 72 + 5000}, ["truncated: it ends 5000 bytes"]),
                               ("no riff", {"riff": 0}, []), ("data", {"data": 3 * samples.nbytes, "riff": 0}, []),
                               ("inner", {"inner": 12}, [])):
        power, _, _, _, said = power_of(folder, name, rf64(folder / "wrong.rf64", samples, **sizes)[0])
        assert np.array_equal(power, wanted) and all(word in said for word in words), (name, said)
        assert ("truncated" in said) == bool(words), (name, said)
    config = config_in(folder)
    for name, sizes, words in (("no samples", {"data": 0}, "has no samples"), ("no ds64", {"mark": b"JUNK"}, "sizes in its header"),
                               ("all ones", {"data": 2**64 - 1, "riff": 2**64 - 1}, "sizes in its header")):
        rf64(folder / "wrong.rf64", samples, **sizes)
        expect(name, process(folder, "wrong.rf64", "-c", config), 2, "wrong.rf64", words)


def try_series(folder):
    """Files that follow on each other, with and without dates in their names, with a gap, in a wrong order."""
    samples = sea(9)
    wanted, index, _, _, _ = power_of(folder, "whole", wav(folder / "whole.wav", samples))
    third, begin_ns = 3 * FS_HZ, int(np.datetime64("2026-01-31T12:00:00", "ns").astype(int))
    parts = [samples[i:i + third] for i in range(0, 3 * third, third)]
    files = [wav(folder / f"part-{i}.wav", part) for i, part in enumerate(parts)]
    power, at, utc_ns, _, said = power_of(folder, "undated", *files)
    assert np.array_equal(power, wanted) and np.array_equal(at, index) and not utc_ns.any(), said
    assert "tells no date" in said, said
    for form in ("a_20260131T1200{:02}Z", "2026-01-31_12-00-{:02}_b", "5147.2601311200{:02}", "c-202601311200{:02}"):
        files = [wav(folder / f"{form.format(3 * i)}.wav", part) for i, part in enumerate(parts)]
        power, at, utc_ns, _, said = power_of(folder, f"of {form[0]}", *files)
        assert np.array_equal(power, wanted) and np.array_equal(at, index), form
        assert np.array_equal(utc_ns, begin_ns + index * SECOND // FS_HZ) and "its name dates" in said, (form, said)
    late = wav(folder / "a_20260131T120011Z.wav", parts[2])
    power, at, _, flags, said = power_of(folder, "late", folder / "a_20260131T120000Z.wav",
                                         folder / "a_20260131T120003Z.wav", late)
    assert "a_20260131T120011Z.wav begins 5.0 s after" in said and "a gap" in said, said
    assert set(at) <= set(range(0, 14 * FS_HZ, HOP)) and at[-1] > 13 * FS_HZ and len(at) < len(index), at
    assert np.array_equal(power[at + LENGTH <= 6 * FS_HZ], wanted[index + LENGTH <= 6 * FS_HZ])
    _, at, _, _, said = power_of(folder, "turned", *files[::-1])
    assert "are they in order?" in said and list(at).count(0) == 3, (said, at)
    power, _, utc_ns, _, said = power_of(folder, "given", *files, "--utc", "2020-01-01T00:00:00Z")
    assert utc_ns[0] == int(np.datetime64("2020-01-01T00:00:00", "ns").astype(int)) and "its name" not in said, said
    assert np.array_equal(power, wanted)


def try_positions(folder):
    """A file of positions that lacks a row."""
    rows = [f"{0.75 * i},0,0" for i in range(SENSORS)]
    config = config_in(folder, CONFIG.replace(f"{{line: {{sensors: {SENSORS}, spacing_m: 0.75}}}}",
                                              "{positions: {csv: array.csv}}"))
    file = wav(folder / "sea.wav", sea(3))
    (folder / "array.csv").write_text("x,y,z\n" + "\n".join(rows[:2] + rows[3:]) + "\n")
    expect("a row is missing", process(folder, file, "-c", config), 2, "6 channels, but the configuration has 5",
           "is a row missing")
    (folder / "array.csv").write_text("x,y,z\n" + "\n".join(rows[:2] + ["1.5,,0"] + rows[3:]) + "\n")
    expect("a value is missing", process(folder, file, "-c", config), 2, "array.csv:4")
    (folder / "array.csv").write_text("x,y,z\n" + "\n".join(rows) + "\n")
    expect("whole", process(folder, file, "-c", config, "--no-pictures"), 0)


def try_mask(folder):
    """A sensor that dies is taken out by array.auto_mask, in the same window each time, also beside other work."""
    config = config_in(folder, CONFIG.replace("heading_deg: 20", "heading_deg: 20, auto_mask: true"))
    samples = sea(30)
    samples[10 * FS_HZ:, 3] = 0
    file = wav(folder / "sea.wav", samples)
    command = [binaries / "sonar-process", file, "-c", config, "--messages", "--no-pictures", "-o"]
    runs = [subprocess.Popen([*command, folder / f"run-{i}"], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
            for i in range(4)]
    assert all(run.wait(240) == 0 for run in runs), [run.communicate() for run in runs]
    kept = [comparable(kept_messages(folder / f"run-{i}/messages.sonar-spectra")) for i in range(4)]
    changed = [h["window"] * HOP / FS_HZ for h, _ in kept[0]["cbf.azimuth"] if "mask_changed" in h["flags"]]
    assert len(changed) == 1 and 13 < changed[0] < 20 and kept[0]["cbf.azimuth"][-1][0]["sensors_used"] == SENSORS - 1, changed
    assert all(other == kept[0] for other in kept[1:]), "two runs differ"


def try_stop(folder):
    """Ctrl-C: what is done is readable, and says so by its code."""
    config, out = config_in(folder), folder / "out"
    file = wav(folder / "long.wav", np.tile(sea(60), (60, 1)))
    tool = subprocess.Popen([binaries / "sonar-process", file, "-c", config, "-o", out, "--no-pictures"],
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    while not (out / "contacts.csv").exists() or (out / "contacts.csv").stat().st_size < 10000:
        assert tool.poll() is None, tool.communicate()
        time.sleep(0.01)
    tool.send_signal(signal.SIGINT)
    said = tool.communicate(timeout=60)[0]
    assert tool.returncode == 130 and "windows" in said, (tool.returncode, said)
    with h5py.File(out / "spectra.h5") as h5:
        done = len(h5["cbf.azimuth/power"])
        assert 0 < done < 60 * 60 * FS_HZ // HOP - 1 and len(h5["cbf.azimuth/time_s"]) == done
    listed = json.loads((out / "contacts.json").read_text())
    assert len(listed) == len((out / "contacts.csv").read_text().splitlines()) - 1 > 0


def try_example(folder):
    answer = process(folder, "--example", "here")
    expect("example", answer, 0, "sonar-process here/", "--config here/array.yaml", "contacts")
    made = {path.name for path in (folder / "here/results").iterdir()}
    assert {"spectra.h5", "contacts.csv", "contacts.json", "tracks.csv", "tracks.json", "tracks.rep"} <= made, made
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        pass
    else:
        assert {"bearing-time.png", "lofargram.png"} <= made, (made, answer)
        assert all((folder / "here/results" / name).stat().st_size > 20000 for name in made if name.endswith("png"))
    last = [m for m in sonar.spectra(folder / "here/results/spectra.h5", "mvdr.azimuth")][-1]
    azimuth, ships = last.axis("azimuth"), (55 + 0.15 * 89, 76)
    peaks = [i for i in range(1, len(azimuth) - 1) if last.db[i] > last.db[i - 1] and last.db[i] > last.db[i + 1]]
    for ship in ships:
        assert min(abs(azimuth[i] - ship) for i in peaks) < 2, (ship, azimuth[peaks])
    expect("twice", process(folder, "--example", "here"), 2, "array.yaml", "exists")


for name in sys.argv[3:] or [name[4:] for name in dir() if name.startswith("try_")]:
    with tempfile.TemporaryDirectory(prefix="sonar-process-") as place:
        globals()[f"try_{name}"](pathlib.Path(place))
        print(f"{name}: as it should be", flush=True)
