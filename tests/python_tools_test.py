#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""tools/python against the daemon: the module reads what is published, sonar-render draws it, from a
recording and live. Exit 77: skipped."""
import json
import logging
import os
import pathlib
import socket
import struct
import subprocess
import sys
import tempfile
import threading

try:
    import matplotlib.image
    import numpy as np
    import zmq
    import zmq.auth.thread
except ImportError as missing:
    print(f"skipped: the Python tools need python3-numpy, python3-zmq and python3-matplotlib ({missing})")
    sys.exit(77)

source, binaries = (pathlib.Path(name).resolve() for name in sys.argv[1:3])
sys.path.insert(0, str(source / "tools/python"))
import sonar  # noqa: E402

SHIP_DEG, TONE_HZ = 60, 300
CONFIG = """
schema: 1
array: {id: 1, name: test-line, geometry: {line: {sensors: 16, spacing_m: 0.75}}, heading_deg: 30, gain_db: 0}
sound_speed_mps: 1500
fs_hz: 4000
ingest: {endpoints: ["ipc://FOLDER/in"], overload: block}
dft: {length: 1024, hop: 1024}
cbf: {band_hz: [400, 950], ranges_m: [50, 100]}
lofar: {band_hz: [100, 950]}
mvdr: {band_hz: [600, 950], length: 512, hop: 256, snapshots: 32}
output: {endpoint: "ipc://FOLDER/out"}
runtime: {threads: 1, backend: cpu}
"""
SCENE = f"""
schema: 1
ambient: {{psd_db: 50}}
sources:
  - name: ship
    far: {{az_deg: {SHIP_DEG}}}
    broadband: {{spectrum: white, band_hz: [100, 1600], psd_db: 62}}
    tones: [{{hz: {TONE_HZ}, level_db: 95}}]
"""


def refuses(parts):
    try:
        sonar.Message(parts)
    except sonar.ProtocolError:
        return True
    return False


def check_module():
    """With a message of a daemon, and invalid messages."""
    data = (source / "tools/dashboard/tests/data/cbf.lofar.msg").read_bytes()
    parts = []
    while data:
        (length,) = struct.unpack("<I", data[:4])
        parts.append(data[4:4 + length])
        data = data[4 + length:]
    message = sonar.Message(parts)
    head = json.loads(parts[1])
    assert message.data.shape == tuple(head["shape"])
    assert message.data[1, 2] == struct.unpack_from("<f", parts[2], 4 * (head["shape"][1] + 2))[0]
    assert message.utc.astype(int) == head["utc_ns"], "exact to the ns"
    assert message.axis("frequency")[3] == head["axes"][0]["start"] + 3 * head["axes"][0]["step"]
    assert list(message.axis(1)) == head["axes"][1]["values"]
    assert np.allclose(message.bearings(70), [100, 320])
    message.header.update(axis_depression_deg=40)
    assert message.bearings(10) == []
    message.header.update(bearing_kind="azimuth", heading_deg=350)
    assert message.bearings(20) == [10]
    message.header.update(bearing_reference="true", resampled={"interpolation": "cubic", "directions": 90})
    assert message.bearings(20) == [20], "the axis itself is true"
    ratio = sonar.Message([parts[0], json.dumps({**head, "unit": "1"}).encode(), parts[2]])
    assert message.db_unit == "dB re 1 uPa^2/Hz" and ratio.db_unit == "dB", message.db_unit
    wrong = json.dumps({**head, "schema": "sonard/2"}).encode()
    try:
        message.tracks
        assert False, "a spectrum has no tracks"
    except AttributeError as error:
        assert "cbf.lofar" in str(error)
    for bad in (parts[:2], [parts[0], b"{", parts[2]], [parts[0], wrong, parts[2]], [parts[0], parts[1], parts[2][4:]]):
        assert refuses(bad)


def bearing(deg, side, **more):
    return {"bearing_deg": deg, "bearing_sigma_deg": 0.1, "rate_deg_per_min": -1.5, "rate_sigma_deg_per_min": 0.2,
            "correlation": 0.5, "side": side, "probability": 0.5, **more}


def track(number, az_deg, bearings, **more):
    return {"number": number, "state": "confirmed", "existence": 1, "bearings": bearings, "az_deg": az_deg, "snr_db": 12,
            "age_s": 60, "unheard_s": 0, "contact": 0, "rests_on": ["cbf", "mvdr"], **more}


def check_tracks():
    """A row for each bearing, and values that are not there."""
    head = {"schema": "sonard/1", "topic": "tracks", "dtype": "<f4", "shape": [0], "axes": [], "unit": None, "window": 3, "flags": []}
    both = track(7, 70, [bearing(100, "starboard"), bearing(320, "port", probability=0.25)])
    alone = track(2**40, 20, [bearing(20, None)], state="coasting", contact=None, rests_on=[])

    def rows(tracks):
        return sonar.Message([b"tracks", json.dumps({**head, "tracks": tracks}).encode(), b""]).tracks
    found = rows([both, alone])
    assert found["number"].tolist() == [7, 7, 2**40] and found["bearing_deg"].tolist() == [100, 320, 20]
    assert found["side"].tolist() == ["starboard", "port", ""] and found["probability"].tolist() == [0.5, 0.25, 0.5]
    assert found["rests_on"].tolist() == ["cbf+mvdr", "cbf+mvdr", ""] and found["contact"].tolist() == [0, 0, -1]
    assert found["state"].tolist() == ["confirmed", "confirmed", "coasting"] and found["rate_deg_per_min"][2] == -1.5
    assert len(rows([])) == 0 and rows([]).dtype == found.dtype


def check_strokes():
    """Lines of a track from its points: [(state, places, times)], in windows of 1 s."""
    from sonar.pictures import strokes

    def drawn(circle, *points):
        return [(state, xs, ys) for state, xs, ys in strokes([(time, state, xs) for time, state, *xs in points], 1, circle)]
    c, t = "confirmed", "tentative"
    assert drawn(False, (0, t, 10), (1, t, 11), (2, c, 12), (3, c, 13)) == [(t, [10, 11], [0, 1]), (c, [11, 12, 13], [1, 2, 3])]
    assert drawn(False, (0, c, 10), (2, c, 11), (3, c, 12)) == [(c, [10], [0]), (c, [11, 12], [2, 3])], "a window is missing"
    assert drawn(True, (0, c, 358), (1, c, 2)) == [(c, [358, 362], [0, 1]), (c, [-2, 2], [0, 1])]
    assert drawn(True, (0, c, 2), (1, c, 358), (2, c, 357)) == [(c, [2, -2], [0, 1]), (c, [362, 358, 357], [0, 1, 2])]
    assert drawn(False, (0, c, 178), (1, c, 2)) == [(c, [178, 2], [0, 1])], "a cone's angle is no circle"
    sides = drawn(True, (0, c, 110, 330), (1, c, 331, 109), (2, c, 332))
    assert sides == [(c, [110, 109], [0, 1]), (c, [330, 331, 332], [0, 1, 2])], "sides change places, and one is dropped"
    assert drawn(True, (0, c, 100), (1, c, 101, 300)) == [(c, [100, 101], [0, 1]), (c, [300], [1])]


def check_labels():
    """Numbers at one place, or near each other, never stand on each other, and those that are alone do not move."""
    import matplotlib.pyplot as plt
    from sonar import pictures
    head = {"schema": "sonard/1", "topic": "cbf.azimuth", "dtype": "<f4", "shape": [19], "unit": "uPa^2", "flags": [], "fs_hz": 1,
            "bearing_kind": "cone", "ambiguous": True, "axes": [{"name": "azimuth", "start": 0, "step": 10}]}
    rows = [sonar.Message([b"cbf.azimuth", json.dumps({**head, "window": w, "sample_index": w, "utc_ns": 10**18 + w * 10**9}).encode(),
                           np.ones(19, "<f4").tobytes()]) for w in range(60)]
    for close in (0, 0.4, 1.5):
        listed = [{"window": w, "bearing_reference": "array", **track(number, az, [], state="lost" if number == 12345 else "confirmed")}
                  for w in range(60) for number, az in ((7, 90), (8, 90 + close), (12345, 90 - close), (9, 90), (10, 30))]
        figure = plt.figure(figsize=(16, 9), dpi=100, layout="constrained")
        axes = figure.add_subplot()
        pictures.image(rows, np.zeros((60, 19)), rows[0].axis("azimuth"), axes)
        pictures.tracks(rows, listed, axes)
        figure.canvas.draw()
        boxes = {text.get_text(): text.get_window_extent() for text in axes.texts}
        offsets = {text.get_text(): text.xyann for text in axes.texts}
        assert set(boxes) == {"7", "8", "9", "10", "12345×"}, boxes
        assert offsets["7"] == offsets["10"] == (5, -2) and all(x == 5 and y <= -2 for x, y in offsets.values()), offsets
        names = sorted(boxes)
        assert not any(boxes[a].overlaps(boxes[b]) for a in names for b in names if a < b), (close, offsets)
        plt.close(figure)
    assert pictures.free_offsets((), []) == []


def check_drawn():
    """Tracks over a record of a circle whose picture begins at -225, and over one of true bearings; window 2 was lost."""
    import matplotlib.dates
    import matplotlib.pyplot as plt
    from sonar import pictures

    def drawn(resampled):
        head = {"schema": "sonard/1", "topic": "cbf.azimuth", "dtype": "<f4", "shape": [4], "unit": "uPa^2", "flags": [], "fs_hz": 1,
                "bearing_kind": "azimuth", "ambiguous": False, "resampled": {} if resampled is None else resampled,
                "axes": [{"name": "azimuth", "start": 0 if resampled else -180, "step": 90}]}
        rows = [sonar.Message([b"cbf.azimuth", json.dumps({**head, "window": w, "sample_index": w, "utc_ns": 10**18 + w * 10**9}).encode(),
                               np.ones(4, "<f4").tobytes()]) for w in (0, 1, 3, 4)]
        listed = [{"window": w, "bearing_reference": "true", **track(7, az, [bearing(az + 30, None)], state=state)}
                  for w, az, state in ((0, 178, "confirmed"), (1, 179, "confirmed"), (2, 179.5, "confirmed"), (3, 181, "confirmed"), (4, 182, "lost"))]
        listed.append({"window": 1, "bearing_reference": "array", **track(8, 10, [bearing(10, None)], state="tentative")})
        axes = plt.figure().add_subplot()
        pictures.image(rows, np.zeros((4, 4)), rows[0].axis("azimuth"), axes)
        pictures.tracks(rows, listed, axes)
        start = matplotlib.dates.date2num(np.datetime64(10**18, "ns"))
        lines = {(line.get_gid(), tuple(np.round(line.get_xdata(), 3)), tuple(np.round((line.get_ydata() - start) * 86400, 1)))
                 for line in axes.lines if str(line.get_gid()).startswith("track")}
        return lines, {text.get_text() for text in axes.texts}
    lines, texts = drawn(None)
    assert lines == {("track 7 confirmed", (-182, -181), (0.5, 1.5)), ("track 7 confirmed", (-179,), (3.5,)),
                     ("track 7 lost", (-179, -178), (3.5, 4.5)), ("track 8 tentative", (10,), (1.5,))}, lines
    assert texts == {"7×", "8?"}
    lines, texts = drawn({"directions": 90})
    assert ("track 7 confirmed", (208, 209), (0.5, 1.5)) in lines and texts == {"7×"}, "bearings of the array's frame have no place"


def program(name, *arguments, **options):
    return subprocess.Popen([str(binaries / name), *map(str, arguments)], stdout=subprocess.DEVNULL,
                            stderr=subprocess.DEVNULL, **options)


def check_subscribe(folder):
    loudest = []
    endpoint = f"ipc://{folder}/out"
    for s in sonar.subscribe(endpoint, "mvdr.azimuth", timeout_s=30):
        loudest.append(s.axis("azimuth")[s.data.argmax()])
        if len(loudest) == 12:
            break
    assert s.topic == "mvdr.azimuth" and s.unit == "uPa^2" and s.db.shape == s.data.shape
    assert abs(loudest[-1] - SHIP_DEG) < 2, loudest
    for s in sonar.listen(endpoint, "tracks", timeout_s=30):
        if (s.tracks["state"] == "confirmed").any():
            break
    assert (abs(s.tracks["bearing_deg"] - [30 + SHIP_DEG, 360 + 30 - SHIP_DEG]) < 2).all(), s.tracks
    assert s.tracks["side"].tolist() == ["starboard", "port"] and (s.tracks["bearing_sigma_deg"] < 1).all(), s.tracks
    topics = set()
    for s in sonar.listen(endpoint, timeout_s=30):
        topics.add(s.topic)
        if topics >= {"cbf.azimuth", "mvdr.azimuth", "detections", "status"}:
            break
    assert "cbf.lofar" not in topics and len(topics) >= 4, topics


def check_key(folder):
    """A key reaches a publisher that speaks CURVE; a file that is not a client's certificate is refused."""
    (public, secret), (own, own_secret) = zmq.curve_keypair(), zmq.curve_keypair()
    file = folder / "reader.key_secret"
    lines = [("public-key", own), ("secret-key", own_secret), ("server-key", public)]
    file.write_text("curve\n" + "".join(f'    {name} = "{key.decode()}"\n' for name, key in lines))
    server = zmq.Context.instance().socket(zmq.XPUB)
    server.curve_server, server.curve_publickey, server.curve_secretkey = True, public, secret
    port = server.bind_to_random_port("tcp://127.0.0.1")
    reader = sonar.connect(f"tcp://127.0.0.1:{port}", "a", key=file)
    assert server.poll(10000) and server.recv() == b"\1a"
    reader.close(), server.close(linger=0)
    file.write_text(file.read_text().replace("server-key", "other-key"))
    try:
        sonar.connect("tcp://127.0.0.1:1", key=file)
        assert False, "a certificate without a server"
    except ValueError as error:
        assert "server-key" in str(error)


class Reasons(logging.Handler):
    """The module's log."""

    def __init__(self):
        super().__init__()
        self.told = []
        sonar.log.addHandler(self)

    def emit(self, record):
        self.told.append(record.getMessage())


def expect_reason(reasons, endpoint, why, key=None):
    """A waiting reader logs the endpoint and the reason once."""
    reasons.told.clear()
    socket = sonar.connect(endpoint, "a", key=key)
    told = set()
    while not sonar.await_message(socket, endpoint, 0.1, told) and why not in socket.why:
        pass  # until the reason is logged, or ctest's time limit
    for _ in range(2):
        assert not sonar.await_message(socket, endpoint, sonar.PATIENCE_S + 0.5, told)
    socket.close()
    assert len(reasons.told) == 1 and reasons.told[0].startswith(f"{endpoint} ") and why in reasons.told[0], reasons.told


def expect_refusal(endpoint, why, key=None):
    try:
        next(sonar.subscribe(endpoint, "a", key=key))
        assert False, "let in"
    except sonar.Refused as error:
        assert why in str(error), error


def serve_hang_ups(path):
    """Like the gate: closes every connection."""
    server = socket.socket(socket.AF_UNIX)
    server.bind(str(path))
    server.listen()

    def hang_up():
        while True:
            server.accept()[0].close()
    threading.Thread(target=hang_up, daemon=True).start()


def check_reasons(folder):
    """A reader that receives nothing says why."""
    reasons = Reasons()
    names = ("node", "other", "reader", "misled")
    keys = {name: zmq.curve_keypair() for name in names}
    for name, of in (("reader", "node"), ("misled", "other")):
        lines = zip(("public-key", "secret-key", "server-key"), (*keys[name], keys[of][0]))
        (folder / name).write_text("curve\n" + "".join(f'    {k} = "{v.decode()}"\n' for k, v in lines))
    expect_reason(reasons, f"ipc://{folder}/nothing", "nothing listens there")
    serve_hang_ups(folder / "gate")
    expect_reason(reasons, f"ipc://{folder}/gate", "or makes them too often")
    context = zmq.Context()
    gate = zmq.auth.thread.ThreadAuthenticator(context)  # allows no key
    gate.start()
    (folder / "allowed").mkdir()
    gate.configure_curve(domain="*", location=str(folder / "allowed"))
    server = context.socket(zmq.XPUB)
    server.curve_server, (server.curve_publickey, server.curve_secretkey) = True, keys["node"]
    encrypted = f"tcp://127.0.0.1:{server.bind_to_random_port('tcp://127.0.0.1')}"
    plain_server = zmq.Context.instance().socket(zmq.PUB)
    plain = f"tcp://127.0.0.1:{plain_server.bind_to_random_port('tcp://127.0.0.1')}"
    expect_refusal(encrypted, "does not allow this key", folder / "reader")
    expect_refusal(encrypted, "speaks CURVE and this reader does not")
    expect_refusal(plain, "or vice versa", folder / "reader")
    expect_reason(reasons, encrypted, "the server-key is not its own", folder / "misled")
    server.close(linger=0), gate.stop(), context.term()
    reader = sonar.connect(plain, "a")
    while not reader.poll(50):
        plain_server.send_multipart([b"a", b'{"schema": "sonard/2"}', b""])
    try:
        sonar.Message(reader.recv_multipart())
        assert False, "a version that this reader does not know"
    except sonar.ProtocolError as error:
        assert "'sonard/2'" in str(error) and "'sonard/1'" in str(error)
    assert reader.look() == "", "let in"
    reader.close(), plain_server.close(linger=0)


def render(folder, picture, *arguments):
    output = folder / f"{picture}.png"
    command = ["/usr/bin/python3", source / "tools/python/sonar-render", picture, "-o", output, *arguments]
    result = subprocess.run(list(map(str, command)), capture_output=True, text=True,
                            env={**os.environ, "SONAR_BIN": str(binaries), "MPLCONFIGDIR": str(folder)})
    assert result.returncode == 0, result.stderr
    return (matplotlib.image.imread(output)[:, :, :3] * 255).round().astype(int)


def red(image):
    return int((abs(image - [0xe1, 0x1e, 0x28]).max(axis=2) < 3).sum())


def check_render(folder, config):
    """Four pictures of a recording: whole without a red pixel. Live, with a gap, the record has red rows."""
    recording = folder / "recording.f32"
    assert program("sonar-sim", "--config", config, "--scene", folder / "scene.yaml", "--duration", 8,
                   "--file", recording, "--utc", "2026-01-31T12:00:00Z").wait() == 0
    for picture in ("btr", "azimuth", "lofar", "nearfield"):
        image = render(folder, picture, "--recording", recording, "--config", config, "--size", "800x400")
        assert image.shape == (400, 800, 3)
        assert len(np.unique(image.reshape(-1, 3), axis=0)) > 50, f"{picture} is empty"
        assert red(image) == 0, picture
    plain, tracked = (render(folder, "btr", "--recording", recording, "--config", config, "--size", "800x400", "--topic",
                             "cbf.azimuth", *more) for more in ((), ("--tracks",)))
    differ = (plain != tracked).any(axis=2)
    rows, columns = np.nonzero(differ)
    ridge = np.nonzero(differ.sum(axis=0) > 100)[0]  # a line along the ship's ridge, and little beside it
    assert len(ridge) and np.ptp(ridge) < 8 and abs(columns - ridge.mean()).max() < 30 and np.ptp(rows) > 150, (ridge, np.ptp(rows))
    # A WAV file has no date: its pictures count from the start, or from the date that is given.
    assert program("sonar-export", recording, folder / "sea.wav").wait(60) == 0
    sound = ("--recording", folder / "sea.wav", "--config", config, "--size", "800x400")
    pictures = [render(folder, "btr", *sound), render(folder, "btr", *sound, "--utc", "2026-01-31T12:00:00Z")]
    assert all(red(image) == 0 and len(np.unique(image.reshape(-1, 3), axis=0)) > 50 for image in pictures)
    assert (pictures[0] != pictures[1]).any(), "another axis of time"
    assert len(np.unique(render(folder, "lofar", *sound).reshape(-1, 3), axis=0)) > 50
    bad = subprocess.run(["/usr/bin/python3", str(source / "tools/python/sonar-render"), "btr", "-o", "/dev/null",
                          "--endpoint", f"ipc://{folder}/nobody", "--wait", "1"], capture_output=True, text=True)
    assert bad.returncode == 1 and "nothing came" in bad.stderr and "nothing listens there" in bad.stderr, bad


def check_recording(folder):
    """A daemon records what the simulator sends; the same scene as a file is the reference."""
    rec = folder / "rec"
    rec.mkdir()
    config = folder / "record.yaml"
    config.write_text(CONFIG.replace("FOLDER", str(folder)).replace("overload: block",
                                                                   "overload: block, high_water_mark: 10000") +
                      f"record: {{what: raw, directory: {rec}, buffer_mib: 64, free_mib: 0}}\n")
    scene = ("--config", config, "--scene", folder / "scene.yaml", "--duration", 3, "--utc", "2026-01-01T00:00:00Z")
    assert program("sonar-sim", *scene, "--file", folder / "sea.f32").wait(60) == 0
    sent = np.fromfile(folder / "sea.f32", "<f4").reshape(-1, 16)
    daemon = program("sonard", config)
    try:
        assert program("sonar-sim", *scene, "--rate", "max").wait(60) == 0
        for s in sonar.subscribe(f"ipc://{folder}/out", "status", timeout_s=60):  # the last frames may still be on their way
            if s.header["record"]["bytes"] + s.header["record"]["waiting"] >= sent.nbytes:
                break
    finally:
        daemon.terminate()
        assert daemon.wait(10) == 0
    (meta,) = rec.glob("*.sigmf-meta")
    counts, about = sonar.recording(meta)
    assert counts.dtype == np.dtype("<f4") and np.array_equal(counts, sent), (counts.shape, sent.shape)
    capture, sensors = about["captures"][0], about["global"]["sonar:sensors"]
    assert capture["core:global_index"] == 0 and capture["core:datetime"] == "2026-01-01T00:00:00.000000000Z"
    assert capture["spatial:element_geometry"][15] == {"point": sensors["position_m"][15]}
    assert capture["spatial:aperture_azimuth"] == 30 and sensors["gain_db"] == [0] * 16 and not about["annotations"]


def main():
    check_module()
    check_tracks()
    check_strokes()
    check_labels()
    check_drawn()
    with tempfile.TemporaryDirectory(prefix="sonard-python-") as name:
        folder = pathlib.Path(name)
        config = folder / "config.yaml"
        config.write_text(CONFIG.replace("FOLDER", name))
        (folder / "scene.yaml").write_text(SCENE)
        # Frames of 256 samples: 1.6 s in every 4 s are missing.
        gaps = [f"{{kind: drop, frame: {frame}, count: 25}}" for frame in range(100, 10000, 62)]
        (folder / "gaps.yaml").write_text(SCENE + f"faults: [{', '.join(gaps)}]\n")
        check_key(folder)
        check_reasons(folder)
        check_render(folder, config)
        check_recording(folder)
        processes = [program("sonard", config),
                     program("sonar-sim", "--config", config, "--scene", folder / "gaps.yaml", "--duration", 0)]
        try:
            check_subscribe(folder)
            image = render(folder, "btr", "--endpoint", f"ipc://{name}/out", "--seconds", 12, "--topic", "cbf.azimuth",
                           "--size", "800x400")
            assert red(image) > 800, f"{red(image)} red pixels: gaps are drawn"
        finally:
            for process in reversed(processes):
                process.terminate()
                process.wait()


main()
