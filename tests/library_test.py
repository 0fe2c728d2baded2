#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""libsonar.so as it is installed, and tools/python over it: it exports sonar/session.h alone; the program of
docs/library.md and Python get the messages of sonar-process, to the byte; what a newcomer does wrong is explained; the
wheel and the notebook work. library_test.py SOURCE BUILD. Exit 77: skipped."""
import json
import logging.handlers
import os
import pathlib
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import zipfile

try:
    import numpy as np
except ImportError as missing:
    print(f"skipped: the test needs python3-numpy ({missing})")
    sys.exit(77)

source, build = (pathlib.Path(name).resolve() for name in sys.argv[1:3])
sys.path.insert(0, str(source / "tools/python"))
sanitizers = re.search(r"^SONAR_SANITIZE:\w+=(.*)$", (build / "CMakeCache.txt").read_text(), re.M)[1]
os.environ["SONAR_LIBRARY"] = str(build / "lib/libsonar.so.0")
os.environ["PATH"] = f"{build}/bin:/usr/bin:{os.environ['PATH']}"  # Debian's python3 for sonar-render

FS_HZ, SENSORS, LENGTH, HOP, SHIP_DEG = 4000, 6, 1024, 512, 60
UTC_NS = 1769860800 * 10**9  # 2026-01-31T12:00:00Z
TOPICS = ["cbf.azimuth", "cbf.nearfield", "cbf.lofar", "mvdr.azimuth", "mvdr.spectrum", "element.psd", "element.missing",
          "cbf.normalised", "mvdr.normalised", "cbf.sped", "detections", "tracks"]
OWN = {"run", "latency_us", "seq"}  # what depends on when it was computed
CONFIG = {"schema": 1, "array": {"geometry": {"line": {"sensors": SENSORS, "spacing_m": 0.75}}, "heading_deg": 20},
          "sound_speed_mps": 1500, "fs_hz": FS_HZ, "dft": {"length": LENGTH, "hop": HOP},
          "cbf": {"band_hz": [400, 950], "ranges_m": [50, 200]},
          "mvdr": {"length": 256, "hop": 128, "snapshots": 12}, "detections": {"threshold_db": 3},
          "runtime": {"backend": "cpu"}}


def run(*command, **options):
    done = subprocess.run([str(word) for word in command], capture_output=True, **options)
    assert done.returncode == 0, f"{command}: {done.returncode}\n{(done.stdout + done.stderr).decode(errors='replace')[-3000:]}"
    return done.stdout


def sea(seconds, sensors=SENSORS):
    """Noise and a tone from SHIP_DEG, 16 bits, [sample][channel]."""
    rng = np.random.default_rng(1)
    t = np.arange(int(seconds * FS_HZ))[:, None] / FS_HZ
    ahead_s = (np.arange(sensors) - (sensors - 1) / 2) * 0.75 * np.cos(np.radians(SHIP_DEG)) / 1500
    return np.rint(rng.standard_normal((len(t), sensors)) * 300 + 900 * np.sin(2 * np.pi * 700 * (t + ahead_s))).astype("<i2")


def wav(path, data, kind, bits, fs_hz=FS_HZ):
    """data: [sample][channel] or, of 24 bits, [sample][channel][3]. With a chunk of odd size, as recorders write."""
    channels = data.shape[1]
    form = struct.pack("<4sIHHIIHH", b"fmt ", 16, kind, channels, fs_hz, channels * bits // 8 * fs_hz, channels * bits // 8, bits)
    body = b"WAVE" + struct.pack("<4sI", b"note", 3) + b"sea\0" + form + struct.pack("<4sI", b"data", data.nbytes) + data.tobytes()
    path.write_bytes(struct.pack("<4sI", b"RIFF", len(body)) + body)
    return path


def comparable(messages):
    return [(bytes(topic), {name: value for name, value in json.loads(header).items() if name not in OWN}, bytes(array))
            for topic, header, array in messages]


def expect_same(what, got, wanted):
    assert len(got) == len(wanted), (what, len(got), len(wanted))
    for mine, other in zip(comparable(got), wanted):
        different = {name: (mine[1].get(name), other[1].get(name)) for name in {*mine[1], *other[1]}
                     if mine[1].get(name) != other[1].get(name)}
        assert mine[0] == other[0] and not different, (what, mine[0], other[0], different)
        assert mine[2] == other[2], (what, mine[0], mine[1]["window"])


def processed(folder, *files, options=("--utc", "2026-01-31T12:00:00Z")):
    """The messages that sonar-process keeps, which are the daemon's (process_test.py)."""
    shutil.rmtree(folder / "kept", ignore_errors=True)
    run("sonar-process", *files, "-c", folder / "array.yaml", "-o", folder / "kept", "--messages", "--no-pictures", "--topics",
        ",".join(TOPICS), *options)
    data, at, found = (folder / "kept/messages.sonar-spectra").read_bytes(), 0, []
    while at < len(data):
        _, _, head, topic, header, array = struct.unpack_from("<4sHHIIQ", data, at)
        ends = np.cumsum([at + head, topic, header, array])
        found.append(tuple(data[a:b] for a, b in zip(ends, ends[1:])))
        at = ends[-1]
    assert sum(topic == b"cbf.azimuth" for topic, *_ in found) > 20
    return comparable(found)


# ---- installed


def block_of_page(mark):
    """A block of docs/library.md."""
    blocks = re.findall(r"```\w+[^\n]*\n(.*?)```", (source / "docs/library.md").read_text(), re.S)
    return next(block for block in blocks if mark in block)


def check_installed(folder, file, wanted):
    place = folder / "installed"
    for component in ("lib", "dev"):
        run("cmake", "--install", build, "--prefix", place, "--component", component)
    (library,) = place.rglob("libsonar.so.0")
    exported = {line.split()[-1].split("@")[0] for line in run("nm", "-D", "--defined-only", library).decode().splitlines()
                if line.split()[-2] not in "A"}
    declared = set(re.findall(r"^(?!typedef).*\b(sonar_session_\w+)\(", (source / "include/sonar/session.h").read_text(), re.M))
    assert exported == declared and len(declared) == 7, (exported ^ declared)
    assert b"[libsonar.so.0]" in run("readelf", "-d", library)
    flags = [f"-fsanitize={sanitizers}"] if sanitizers else []
    (folder / "messages.c").write_text(block_of_page("int main"))
    pc = next(place.rglob("libsonar.pc")).parent
    asked = run("pkg-config", "--cflags", "--libs", "libsonar", env={**os.environ, "PKG_CONFIG_PATH": str(pc)}).decode().split()
    run("cc", "-std=c17", "-Wall", "-Wextra", "-Werror", *flags, "-o", folder / "messages", folder / "messages.c", *asked)
    header = 'extern "C" void first(); \n#include <sonar/session.h>\nint main() { return sonar_session_version() == nullptr; }\n'
    run("c++", "-std=c++17", "-Wall", "-Werror", "-fsyntax-only", "-x", "c++", "-", *asked, input=header.encode())
    program = [folder / "messages", folder / "array.yaml", SENSORS, FS_HZ, UTC_NS, ",".join(TOPICS)]
    here = {**os.environ, "LD_LIBRARY_PATH": str(library.parent)}
    said = run(*program, input=file.astype("<f4").tobytes(), env=here)
    at, got = 0, []
    while at < len(said):
        end = said.index(b"\n", at)
        topic, header_bytes, bytes_ = said[at:end].split()
        ends = np.cumsum([end + 1, int(header_bytes), int(bytes_)])
        got.append((topic, said[ends[0]:ends[1]], said[ends[1]:ends[2]]))
        at = ends[2]
    expect_same("C", got, wanted)
    wrong = subprocess.run([str(word) for word in (*program[:2], 7, *program[3:])], input=bytes(28), capture_output=True, env=here)
    assert wrong.returncode == 1 and b"7 channels, but the configuration has 6" in wrong.stderr, wrong


# ---- Python


def take_all(session):
    return list(iter(session.take, None))


def check_session(folder, samples, wanted):
    """Types, strides and byte orders."""
    import sonar
    assert sonar.library_version() == sonar.__version__
    sonar.session.AT_ONCE = 3333 * SENSORS  # many pieces
    padded = np.zeros((len(samples), 2 * SENSORS + 1), "<f8")
    padded[:, 1::2] = samples
    for what, given, block in (("int16", samples, 999), ("float64", samples.astype(float), 10**9),
                               ("big-endian", samples.astype(">i4"), 4096), ("transposed", np.ascontiguousarray(samples.T).T, 4096),
                               ("every other column", padded[:, 1::2], 5000), ("backwards", samples[::-1].copy()[::-1], 4096),
                               ("unaligned", np.frombuffer(b"x" + samples.astype("<f4").tobytes(), "<f4", offset=1).reshape(
                                   samples.shape), 4096)):
        with sonar.Session(folder / "array.yaml", TOPICS) as session:
            got = []
            for at in range(0, len(given), block):
                session.feed(given[at:at + block], FS_HZ, 0 if at else UTC_NS)
                got += take_all(session)
            session.finish()
            expect_same(what, got + take_all(session), wanted)


def check_mask(folder):
    """Sensors that array.auto_mask takes out: at the same window each time, although a tick of the clock finds them."""
    import sonar
    samples, config = sea(14), {**CONFIG, "array": {**CONFIG["array"], "auto_mask": True}}
    samples[3 * FS_HZ:, 2] = 0
    (folder / "array.yaml").write_text(json.dumps(config))
    shutil.rmtree(folder / "kept")
    wanted = processed(folder, wav(folder / "dead.wav", samples, 1, 16))
    assert sum("mask_changed" in header["flags"] for topic, header, _ in wanted if topic == b"cbf.azimuth") == 1
    with sonar.Session(config, TOPICS) as session:
        session.feed(samples, FS_HZ, UTC_NS)
        session.finish()
        expect_same("auto_mask", take_all(session), wanted)


def check_beamform(samples):
    """The numbers of a session with the configuration written by hand, and those of physics."""
    import sonar
    positions = [[0.75 * i, 0, 0] for i in range(SENSORS)]
    config = {**CONFIG, "array": {"geometry": {"positions": {"list": positions}}, "heading_deg": 20},
              "cbf": {"band_hz": [400, 950], "ranges_m": []}, "mvdr": {**CONFIG["mvdr"], "enabled": True}}
    for method, topic in (("cbf", "cbf.azimuth"), ("mvdr", "mvdr.azimuth")):
        record = sonar.beamform(samples, positions, FS_HZ, method=method, band_hz=(400, 950), window=LENGTH, hop=HOP,
                                heading_deg=20, utc="2026-01-31T12:00:00Z", options={"mvdr": CONFIG["mvdr"]})
        with sonar.Session(config, [topic]) as session:
            session.feed(samples, FS_HZ, UTC_NS)
            session.finish()
            messages = list(session)
        assert record.power.tobytes() == b"".join(m.data.tobytes() for m in messages) and record.topic == topic
        assert record.power.dtype == np.float32 and record.unit == "counts^2" and len(record) == len(messages)
        assert record.time[0] == np.datetime64("2026-01-31T12:00:00", "ns") and record.time[1] - record.time[0] == \
            np.timedelta64(10**9 * HOP // FS_HZ, "ns")
        assert abs(record.az_deg[record.power[-1].argmax()] - SHIP_DEG) < 4, record.az_deg[record.power[-1].argmax()]
        check_xarray(record)
    # A tone of amplitude 900 in noise of 300: by Parseval its power in the band, without any of the code's own constants.
    level = sonar.beamform(samples, positions, FS_HZ, band_hz=(650, 750), window=LENGTH).power.max(axis=1)
    assert abs(10 * np.log10(level.mean() / (900**2 / 2))) < 0.5, level.mean()
    undated = sonar.beamform(samples, positions, FS_HZ)  # all defaults
    assert undated.time.dtype == float and undated.time[0] == 0 and undated.time[1] == 4096 / 2 / FS_HZ
    low_hz, high_hz = undated.messages[0].header["band_hz"]  # an aperture of 3.75 m; neighbours 0.75 m apart
    assert 400 <= low_hz < 401 and 999 < high_hz <= 1000, (low_hz, high_hz)
    ring = [[np.cos(a), np.sin(a)] for a in np.arange(SENSORS) * 2 * np.pi / SENSORS]
    assert sonar.beamform(samples, ring, FS_HZ, sound_speed=1480).messages[0].header["bearing_kind"] == "azimuth"
    shaded = sonar.beamform(samples, positions, np.int64(FS_HZ), sound_speed=np.int64(1500), gain_db=np.zeros(SENSORS),
                            options={"cbf": {"ranges_m": np.array([100])}, "array": {"name": "mine"}})
    assert shaded.messages[0].header["array"] == "mine" and shaded.unit == "uPa^2"


def check_xarray(record):
    sys.modules["xarray"] = None  # as if it were not installed
    try:
        record.to_xarray()
        assert False, "without xarray"
    except ImportError as error:
        assert "needs the package xarray" in str(error)
    del sys.modules["xarray"]
    try:
        import xarray  # noqa: F401
    except ImportError:
        print("skipped: to_xarray() needs xarray")
        return
    array = record.to_xarray()
    assert array.dims == ("time", "azimuth") and array.attrs["units"] == "counts^2"
    assert np.array_equal(array.azimuth, record.az_deg) and array.azimuth.attrs["units"] == "deg"


def check_gaps(folder, samples):
    import sonar
    with sonar.Session(folder / "array.yaml", ["cbf.azimuth", "element.missing"]) as session:
        session.feed(samples[:5000], FS_HZ)
        session.skip(60, SENSORS, FS_HZ)
        session.feed(samples[5060:9000], FS_HZ)
        session.finish()
        messages = list(session)
    for m in messages:
        first = m.header["sample_index"]
        lost = max(0, min(first + LENGTH, 5060) - max(first, 5000)) / LENGTH
        assert ("gap" in m.flags) == (lost > 0)
        if m.topic == "element.missing":
            assert np.allclose(m.data, lost), (m.data, lost)
    assert len(messages) == 2 * (1 + (9000 - LENGTH) // HOP)
    far = 10**7  # beyond the ring
    with sonar.Session(CONFIG, ["cbf.azimuth"]) as session:
        session.feed(samples[:4000], FS_HZ, UTC_NS)
        session.skip(far, SENSORS, FS_HZ)
        session.feed(samples[:4000], FS_HZ)
        session.finish()
        messages = list(session)
    begins = [m.header["sample_index"] for m in messages]
    inside = [at for at in range(0, far + 8000 - LENGTH + 1, HOP) if at + LENGTH <= 4000 or at >= 4000 + far]
    assert begins == inside, (begins, inside)
    assert all(m.utc.astype(int) == UTC_NS + at * 10**9 // FS_HZ for m, at in zip(messages, begins))


def expect(words, call, *arguments, kind=ValueError, **named):
    try:
        call(*arguments, **named)
    except kind as error:
        assert all(word in str(error) for word in words), (words, str(error))
        return
    assert False, f"not refused: {words}"


def check_mistakes(folder, samples):
    import sonar
    positions, floats = np.arange(SENSORS)[:, None] * [0.75, 0, 0], samples.astype(float)
    spoilt = floats.copy()
    spoilt[17, 3] = np.nan
    huge = floats.copy()
    huge[18, 2] = 1e300
    nowhere = positions.copy()
    nowhere[4, 1] = np.inf
    for words, *arguments in (
            (["(6, 24000)", "positions 6 rows", "samples.T has that"], samples.T, positions, FS_HZ),
            (["1 rows missing in positions", "samples[:, [0, 1"], samples, positions[:-1], FS_HZ),
            (["2 channels are missing"], samples[:, :4], positions, FS_HZ),
            (["(24000,)", "[sample][sensor]"], samples[:, 0], positions, FS_HZ),
            (["samples[17, 3] is nan", "skip()"], spoilt, positions, FS_HZ),
            (["samples[18, 2] is 1e+300"], huge, positions, FS_HZ),
            (["samples are of the type complex128", "real numbers"], samples * 1j, positions, FS_HZ),
            (["samples are of the type bool"], samples > 0, positions, FS_HZ),
            (["samples are of the type <U"], [["1", "2"]], positions, FS_HZ),
            (["positions have the shape (3, 6)", "positions.T has that"], samples, positions.T, FS_HZ),
            (["positions have the shape (6,)", "[x, y, z]"], samples, positions[:, 0], FS_HZ),
            (["positions are ", "as [sensor][3] in m"], samples, [[0, 0, 0], [1, 0]], FS_HZ),
            (["positions[4] is [3.0, inf, 0.0]"], samples, nowhere, FS_HZ),
            (["fs is 0", "48000"], samples, positions, 0),
            (["fs is nan"], samples, positions, float("nan")),
            (["fs is '4000'"], samples, positions, "4000"),
            (["900 samples are shorter than a window of 4096", "window=128"], samples[:900], positions, FS_HZ)):
        expect(words, sonar.beamform, *arguments)
    expect(["method is 'music'", "cbf and mvdr"], sonar.beamform, samples, positions, FS_HZ, method="music")
    expect(["utc is 'noon'"], sonar.beamform, samples, positions, FS_HZ, utc="noon")
    expect(["error: ", "2000"], sonar.beamform, samples, positions, FS_HZ, band_hz=(400, 2500))
    expect(["shadig", "shading"], sonar.beamform, samples, positions, FS_HZ, options={"cbf": {"shadig": "hann"}})
    said = logging.handlers.BufferingHandler(1000)
    logging.getLogger("sonar").addHandler(said)
    sonar.beamform(samples, [[0, 0, 0]] * SENSORS, FS_HZ, band_hz=(400, 950))
    assert any("sensors 0 and 1 are at one place" in line.getMessage() for line in said.buffer), said.buffer
    record = sonar.beamform(samples, positions, FS_HZ)
    expect(["no axis 'range', but azimuth"], lambda: record.range_m, kind=AttributeError)
    assert not hasattr(record, "frequency_hz")
    file = wav(folder / "fast.wav", samples, 1, 16, 8000)
    expect(["8000 Hz, but the configuration has 4000 Hz"], sonar.process, file, folder / "array.yaml")
    expect(["4 channels, but the configuration has 6"], sonar.process, wav(folder / "four.wav", samples[:, :4], 1, 16), CONFIG)
    expect(["no message came", "dft.length"], sonar.process, wav(folder / "short.wav", samples[:100], 1, 16), CONFIG)
    expect(["'btr' is not a topic"], sonar.process, file, CONFIG, topics=["btr"])
    expect(["has no mvdr.azimuth"], sonar.process, file, {**CONFIG, "output": {"topics": ["cbf.azimuth"]}})
    expect(["8 bits", "sonar-process"], sonar.process, wav(folder / "u8.wav", samples.astype("u1"), 1, 8), CONFIG)
    (folder / "no.flac").write_bytes(b"fLaC" + bytes(40))
    expect(["no WAV file", "sonar-process reads"], sonar.process, folder / "no.flac", CONFIG)
    expect(["/no/such.yaml", "No such file"], sonar.process, file, "/no/such.yaml", kind=sonar.Error)
    expect(["shape (24000,)"], sonar.Session(CONFIG).feed, samples[:, 0], FS_HZ)
    session = sonar.Session(CONFIG)
    session.close()
    expect(["closed"], session.finish, kind=sonar.Error)
    expect(["no attribute 'listn'"], lambda: sonar.listn, kind=AttributeError)


def expect_results(what, results, wanted):
    got = [(m.topic.encode(), json.dumps(m.header).encode(), m.data.tobytes()) for record in results.values() for m in record.messages]
    order = {topic.encode(): i for i, topic in enumerate(results)}
    expect_same(what, got, sorted(wanted, key=lambda message: order[message[0]]))


def check_several(folder, wanted_whole):
    """Files that follow on each other and files side by side, as sonar-process has them."""
    import sonar
    samples, config = sea(6), folder / "array.yaml"
    cuts = [0, 2 * FS_HZ, 4 * FS_HZ, 6 * FS_HZ]
    parts = [samples[a:b] for a, b in zip(cuts, cuts[1:])]

    def dated(kind, *seconds):
        (folder / kind).mkdir(exist_ok=True)
        return [wav(folder / f"{kind}/a_20260131T1200{s:02}Z.wav", part, 1, 16) for s, part in zip(seconds, parts)]

    undated = [wav(folder / f"part-{i}.wav", part, 1, 16) for i, part in enumerate(parts)]
    expect_results("utc", sonar.process(undated, config, topics=TOPICS, utc=np.datetime64(UTC_NS, "ns")), wanted_whole)
    for files, options, utc in ((undated, (), None), (dated("even", 0, 2, 4), (), None), (dated("near", 0, 3, 4), (), None),
                                (dated("gap", 0, 2, 9), (), None), (dated("gap", 0, 2, 9), ("--utc", "0"), 0),
                                (dated("gap", 0, 2, 9), ("--utc", "2020-01-01T00:00:00Z"), "2020-01-01T00:00:00Z")):
        results = sonar.process(files, config, topics=TOPICS, utc=utc)
        expect_results((files[-1], utc), results, processed(folder, *files, options=options))
        indices = [m.header["sample_index"] for m in results["cbf.azimuth"].messages]
        assert (max(indices) > 8 * FS_HZ) == ("gap" in str(files[0]) and utc != 0), (files, indices[-1])
    beside = [wav(folder / "left.wav", samples[:, :2], 1, 16), wav(folder / "right.wav", samples[:-100, 2:].astype("<f4"), 3, 32)]
    results = sonar.process(beside, config, topics=TOPICS, side_by_side=True)
    expect_results("beside", results, processed(folder, *beside, options=("--side-by-side",)))
    expect(["are they in order?", "4.0 s before"], sonar.process, dated("even", 0, 2, 4)[::-1], config)
    expect(["right.wav", "4 channels", "left.wav has 2"], sonar.process, beside, config)
    expect(["part-1.wav", "8000 Hz", "4000 Hz"], sonar.process, [undated[0], wav(undated[1], parts[1], 1, 16, 8000)], config)
    expect(["part-1.wav", "8000 Hz", "4000 Hz"], sonar.process, undated[:2], config, side_by_side=True)
    expect(["the same time", "utc="], sonar.process, dated("even", 0, 2, 4), config, side_by_side=True)
    expect(["no file was given"], sonar.process, [], config)
    parts[0].tofile(folder / "counted.sigmf-data")
    (folder / "counted.sigmf-meta").write_text(json.dumps({
        "global": {"core:datatype": "ri16_le", "core:sample_rate": FS_HZ, "core:num_channels": SENSORS, "core:version": "1.2.0"},
        "captures": [{"core:sample_start": 0, "core:global_index": 8000}], "annotations": []}))
    expect(["core:global_index", "sonar-process joins"], sonar.process, [undated[0], folder / "counted.sigmf-meta"], config)


def check_process(folder, samples, wanted):
    """All kinds of WAV files, and SigMF, give the numbers of sonar-process; so do its contacts."""
    import sonar
    wide = samples.astype("<i4")
    files = [wav(folder / "ships_20260131T120000Z.wav", samples, 1, 16), wav(folder / "a.260131120000.wav", wide, 1, 32),
             wav(folder / "20260131120000.wav", wide.view("u1").reshape(len(samples), SENSORS, 4)[..., :3], 1, 24),
             wav(folder / "2026-01-31_12-00-00.wav", samples.astype("<f4"), 3, 32), wav(folder / "f.wav", samples.astype("<f8"), 3, 64)]
    samples.tofile(folder / "set.sigmf-data")
    (folder / "set.sigmf-meta").write_text(json.dumps({
        "global": {"core:datatype": "ri16_le", "core:sample_rate": FS_HZ, "core:num_channels": SENSORS, "core:version": "1.2.0"},
        "captures": [{"core:sample_start": 0, "core:datetime": "2026-01-31T12:00:00Z"}], "annotations": []}))
    files.append(folder / "set.sigmf-meta")
    for file in files:
        results = sonar.process(file, folder / "array.yaml", topics=TOPICS, utc=np.datetime64(UTC_NS, "ns") if file.name == "f.wav" else None)
        expect_results(file.name, results, wanted)
    listed = json.loads((folder / "kept/contacts.json").read_text())
    assert len(results.contacts) == len(listed) > 5
    for mine, kept in zip(results.contacts, listed):
        assert all(kept[name] == mine[name] for name in ("window", "az_deg", "level_db", "source")), (mine, kept)
    listed = json.loads((folder / "kept/tracks.json").read_text())
    assert len(results.tracks) == len(listed) > 5 and {t["state"] for t in listed} >= {"confirmed"}
    for mine, kept in zip(results.tracks, listed):
        assert str(mine.pop("utc"))[:23] == kept.pop("utc")[:23] and abs(mine.pop("time_s") - kept.pop("time_s")) < 1e-6
        assert mine == kept, (mine, kept)
    assert sonar.Results().tracks == []
    assert results["cbf.lofar"].power.shape == (len(results["cbf.lofar"]), len(results["cbf.lofar"].frequency_hz),
                                                len(results["cbf.lofar"].az_deg))
    undated = sonar.process(wav(folder / "undated.wav", samples, 1, 16), CONFIG)
    assert undated["cbf.azimuth"].time[2] == 2 * HOP / FS_HZ
    whole = files[0].read_bytes()
    (folder / "cut.wav").write_bytes(whole[:len(whole) // 2 + 1])  # in the middle of a sample
    cut, _ = sonar.read_wav(folder / "cut.wav")
    assert len(samples) // 2 - 10 < len(cut) < len(samples) // 2 and np.array_equal(cut, samples[:len(cut)])
    (folder / "empty.wav").write_bytes(whole[:len(whole) - samples.nbytes])
    expect(["no samples in it"], sonar.read_wav, folder / "empty.wav")
    read, fs = sonar.read_wav(files[2])
    assert np.array_equal(read, samples) and fs == FS_HZ


# ---- the wheel, the page, the notebook


def check_wheel(folder):
    """By pip if it is there, else unpacked; in an interpreter that has no other way to the library and to the module."""
    site = folder / "site"
    if subprocess.run([sys.executable, "-m", "pip", "--version"], capture_output=True).returncode == 0:
        run(sys.executable, "-m", "pip", "install", "--no-deps", "--no-index", "--disable-pip-version-check", "--target", site,
            source / "tools/python", cwd=folder)
    else:
        make = f"import sys; sys.path.insert(0, {str(source / 'tools/python')!r}); import backend; print(backend.build_wheel('.'))"
        wheel = folder / run(sys.executable, "-c", make, cwd=folder).decode().strip()
        assert re.fullmatch(r"sonard-[\d.]+-py3-none-linux_\w+\.whl", wheel.name), wheel
        zipfile.ZipFile(wheel).extractall(site)
    assert (site / "sonar/libsonar.so.0").read_bytes() == (build / "lib/libsonar.so.0").read_bytes()
    program = ("import sys; sys.modules['zmq'] = sys.modules['h5py'] = sys.modules['matplotlib'] = None\n"
               "import sonar, numpy; print(sonar.__file__)\n"
               "print(sonar.beamform(numpy.ones((64, 2)), [[0, 0, 0], [1, 0, 0]], 8, band_hz=(1, 3), window=8))\n")
    plain = {name: value for name, value in os.environ.items() if name != "SONAR_LIBRARY"}
    said = run(sys.executable, "-c", program, env={**plain, "PYTHONPATH": str(site)}, cwd=folder).decode()
    assert said.startswith(str(site)) and "<sonar.Record cbf.azimuth [window 15][azimuth" in said, said
    assert not list((source / "tools/python").glob("*.egg-info")) and not (source / "tools/python/build").exists()


def has(module):
    return subprocess.run([sys.executable, "-c", f"import {module}"], capture_output=True).returncode == 0


def check_notebook(folder):
    """As Jupyter runs it, or its cells as a script; then the page's programs on its example."""
    if not has("matplotlib"):
        print("skipped: the notebook needs python3-matplotlib")
        return
    notebook = json.loads((source / "examples/recording.ipynb").read_text())
    assert not any(cell.get("outputs") or cell.get("execution_count") for cell in notebook["cells"]), "stored without outputs"
    env = {**os.environ, "PYTHONPATH": f"{source}/tools/python:{os.environ.get('PYTHONPATH', '')}", "MPLBACKEND": "Agg", "MPLCONFIGDIR": str(folder)}
    if has("nbclient, ipykernel"):
        program = ("import nbclient, nbformat\n"
                   f"nbclient.NotebookClient(nbformat.read({str(source / 'examples/recording.ipynb')!r}, 4)).execute()")
        run(sys.executable, "-c", program, cwd=folder, env=env)
    else:
        print("the notebook's cells run as a script; Jupyter runs them with python3-nbclient and python3-ipykernel")
    script = "\n".join("".join(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == "code")
    check = ('\nassert len(results["mvdr.azimuth"]) > 30 and contacts and 50 < track[-1] < 80, track\n'
             'assert results["cbf.azimuth"].dated and len(plt.get_fignums()) == 3\n')
    run(sys.executable, "-c", script + check, cwd=folder, env=env)
    import sonar
    file = folder / "my-example/ships_20260131T120000Z.wav"
    first, _ = sonar.read_wav(file)
    wav(file, first[:25 * FS_HZ].view("u1").reshape(-1, 32, 4)[..., :3], 1, 24)  # the page's programs need less of it
    for mark in ("sonar.process(", "sonar.read_wav("):
        assert run(sys.executable, "-c", block_of_page(mark), cwd=folder, env=env).decode().strip()
    assert (folder / "record.png").stat().st_size > 10000


def main():
    with tempfile.TemporaryDirectory(prefix="sonard-library-") as name:
        folder, samples = pathlib.Path(name), sea(6)
        (folder / "array.yaml").write_text(json.dumps(CONFIG))
        wanted = processed(folder, wav(folder / "sea.wav", samples, 1, 16))
        check_installed(folder, samples, wanted)
        if sanitizers:
            return  # Python itself has none
        check_session(folder, samples, wanted)
        check_process(folder, samples, wanted)
        check_several(folder, wanted)
        check_beamform(samples)
        check_gaps(folder, samples)
        check_mistakes(folder, samples)
        check_wheel(folder)
        check_notebook(folder)
        check_mask(folder)


main()
