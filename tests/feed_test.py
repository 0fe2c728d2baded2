#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""sonar-feed: what a daemon's socket gets of samples from pipes, FIFOs, TCP and UDP: every sample at its index, gaps as
gaps, times by the clock or by the stream. feed_test.py BINARIES [--plugins FOLDER] [NAME...]. Exit 77: skipped."""
import json
import os
import pathlib
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time

from ear import Ear, PATIENCE_S, SECOND, binaries  # first, because it skips the test if there is no numpy or zmq

import numpy as np

names, plugins = sys.argv[2:], None
if names[:1] == ["--plugins"]:
    plugins, names = pathlib.Path(names[1]).resolve(), names[2:]
FS_HZ, CHANNELS = 8000, 3
RAW = ["--format", "s16le", "--channels", str(CHANNELS), "--rate", str(FS_HZ)]


def sea(samples, seed=1):
    return np.random.default_rng(seed).integers(-30000, 30000, (samples, CHANNELS)).astype("<i2")


def length(ear):
    return sum(len(frame.data) for frame in ear.frames)


def at_least(samples):
    return lambda ear: length(ear) >= samples


def expect_whole(ear, samples):
    (run,) = ear.runs()
    assert run[0] == 0 and np.array_equal(run[1], samples), (run[0], run[1].shape, ear.said())


def free_port(kind=socket.SOCK_STREAM):
    with socket.socket(socket.AF_INET, kind) as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def try_pipe(folder):
    """Standard input, raw in several types, and with WAV's header; the last frame is shorter."""
    samples = sea(10007)
    wide = samples.astype("<i4") * 200
    for kind, data, wanted in (("s16le", samples, samples), ("S16_LE", samples, samples),
                               ("s16be", samples.astype(">i2"), samples), ("s32be", wide.astype(">i4"), wide),
                               ("s24le", wide.view("u1").reshape(-1, 4)[:, :3], wide), ("f32le", samples.astype("<f4"), samples),
                               ("f64be", samples.astype(">f8"), samples)):
        ear = Ear(folder, "-", "--format", kind, *RAW[2:], stdin=subprocess.PIPE)
        ear.tool.stdin.write(data.tobytes())
        ear.tool.stdin.close()
        expect_whole(ear.end(), wanted)
    form = struct.pack("<4sIHHIIHH", b"fmt ", 16, 1, CHANNELS, FS_HZ, 2 * CHANNELS * FS_HZ, 2 * CHANNELS, 16)
    for size in (samples.nbytes, 0xffffffff):  # a program that cannot know the length writes the latter
        ear = Ear(folder, "-", stdin=subprocess.PIPE)
        ear.tool.stdin.write(struct.pack("<4sI4s", b"RIFF", min(size + 36, 0xffffffff), b"WAVE") + form +
                             struct.pack("<4sI", b"data", size) + samples.tobytes())
        ear.tool.stdin.close()
        expect_whole(ear.end(), samples)
    counted = json.loads((folder / "summary").read_text())
    assert counted["samples"] == len(samples) and counted["overflow"] == 0, counted


def try_fifo(folder):
    """A FIFO; and an end by a signal while nothing comes."""
    os.mkfifo(folder / "fifo")
    ear = Ear(folder, folder / "fifo", *RAW)
    samples = sea(4096)
    with open(folder / "fifo", "wb") as writer:
        writer.write(samples.tobytes())
        writer.flush()
        ear.listen(at_least(len(samples)))
        ear.end(number=signal.SIGTERM)
    expect_whole(ear, samples)


def try_tcp(folder):
    """A server and a client; a connection that ends and comes again leaves a gap by the clock."""
    port, samples = free_port(), sea(8192)
    with socket.create_server(("127.0.0.1", port)) as server:
        ear = Ear(folder, f"tcp://127.0.0.1:{port}", *RAW)
        server.settimeout(PATIENCE_S)
        first = server.accept()[0]
        first.sendall(samples[:4096].tobytes())
        ear.listen(at_least(4096))
        first.close()
        begun = time.monotonic()
        second = server.accept()[0]
        time.sleep(1.2)  # 0.5 s of samples came at once
        second.sendall(samples[4096:].tobytes())
        ear.listen(at_least(8192))
        away_s = time.monotonic() - begun
        ear.end(number=signal.SIGINT)
        second.close()
    (start, one), (index, two) = ear.runs()
    assert start == 0 and np.array_equal(np.concatenate([one, two]), samples)
    assert 4096 < index <= 4096 + (away_s + 2) * FS_HZ and "by the time without a connection" in ear.said(), (index, ear.said())
    ear = Ear(folder, f"tcp-listen://127.0.0.1:{port}", *RAW)
    until = time.monotonic() + PATIENCE_S
    while True:
        try:
            sender = socket.create_connection(("127.0.0.1", port))
            break
        except ConnectionRefusedError:
            assert time.monotonic() < until
            time.sleep(0.05)
    with sender:
        sender.sendall(samples.tobytes())
        ear.listen(at_least(len(samples)))
        ear.end(number=signal.SIGTERM)
    expect_whole(ear, samples)


def try_udp(folder):
    """Datagrams with RTP's header: lost ones leave a gap, late and repeated ones and those of another size are left
    out; the counter passes its end."""
    port, samples, size = free_port(socket.SOCK_DGRAM), sea(6000), 48
    ear = Ear(folder, f"udp://127.0.0.1:{port}", "--format", "s24be", *RAW[2:], "--skip", 12, "--counter", "2:2:be")
    wide = samples.astype(">i4")
    datagrams = []
    for i in range(len(samples) // size):
        part = wide[i * size:(i + 1) * size]
        head = struct.pack(">BBHII", 0x80, 96, (65500 + i) & 0xffff, i * size, 7)
        datagrams.append(head + part.view("u1").reshape(-1, 4)[:, 1:].tobytes())
    order = [i for i in range(len(datagrams)) if i not in (10, 60, 61)]
    order.insert(30, 5)   # long ago
    order.insert(80, 70)  # repeated
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        until = time.monotonic() + PATIENCE_S
        while not ear.frames:  # the first until it is heard
            assert time.monotonic() < until, ear.said()
            sender.sendto(datagrams[0], ("127.0.0.1", port))
            time.sleep(0.05)
            if ear.pull.poll(0):
                ear.listen(at_least(1))
        for i in order[1:]:
            sender.sendto(datagrams[i], ("127.0.0.1", port))
        sender.sendto(datagrams[-1][:-1], ("127.0.0.1", port))
        ear.listen(at_least(size * (len(datagrams) - 3)))
        ear.end(number=signal.SIGTERM)
    wanted = [(0, samples[:10 * size]), (11 * size, samples[11 * size:60 * size]), (62 * size, samples[62 * size:])]
    for (index, got), (there, sent) in zip(ear.runs(), wanted):
        assert index == there and np.array_equal(got, sent), (index, there, got.shape)
    assert len(ear.runs()) == 3 and "by the counter" in ear.said() and "is not whole samples" in ear.said(), ear.said()
    assert "came late, twice or in another size" in ear.said()


def try_time(folder):
    """By the clock; by the stream; unknown; faster than it can be."""
    samples = sea(2 * FS_HZ)
    for option, first_ns in ((["--utc", "2026-01-31T12:00:00Z"], int(np.datetime64("2026-01-31T12:00:00", "ns").astype(int))),
                             (["--utc", "0"], None)):
        ear = Ear(folder, "-", *RAW, *option, stdin=subprocess.PIPE)
        ear.tool.stdin.write(samples.tobytes())
        ear.tool.stdin.close()
        for frame in ear.end().frames:
            assert frame.utc_ns == (first_ns + frame.index * SECOND // FS_HZ if first_ns else 0), frame[:4]
    ear = Ear(folder, "-", *RAW, stdin=subprocess.PIPE)
    before_ns = time.time_ns()
    ear.tool.stdin.write(samples[:256].tobytes())
    ear.tool.stdin.flush()
    ear.listen(at_least(256))
    assert before_ns - 32 * SECOND // 1000 <= ear.frames[0].utc_ns <= time.time_ns() - 32 * SECOND // 1000, ear.frames[0][:4]
    ear.tool.stdin.write(np.tile(samples, (8, 1)).tobytes())
    ear.tool.stdin.close()
    assert "faster than they can have been taken" in ear.end().said(), ear.said()


# ---- sound cards ---------------------------------------------------------------------------------

CARD = ["--format", "S32_LE", "--channels", "3", "--rate", "8000"]


def alsa(folder, name="own_card"):
    """The environment of a program that has only these devices; the card of plugins/own_card.c keeps its files in a folder
    of this name."""
    card = plugins / "own_card.so"
    (folder / name).mkdir()
    (folder / "asound.conf").write_text(f"""
pcm_type.own_card {{ lib "{card}" }}
pcm.own {{ type own_card hint {{ show on description "a card of the tests" }} }}
pcm.plugged {{ type plug slave.pcm own }}
pcm.played {{ type file slave.pcm nothing file /dev/null infile "{folder}/played.raw" format raw }}
pcm.nothing {{ type null }}
pcm.resampled {{ type rate slave {{ pcm nothing rate 44100 }} }}
""")
    return {**os.environ, "ALSA_CONFIG_PATH": str(folder / "asound.conf"), "OWN_CARD": str(folder / name), "LD_PRELOAD": str(card)}


def wait_for(condition, ear):
    until = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < until and ear.tool.poll() is None, ear.said()
        ear.listen(at_least(1 + length(ear)))


def expect_positions(ear, begun_ns):
    """Each sample says its position: it has to be the one of its index and of its time. Returns the runs."""
    runs = ear.runs()
    first = int(runs[0][1][0, 0]) // CHANNELS
    for index, samples in runs:
        there = first + index + np.arange(len(samples))
        off = samples[:, 0] // CHANNELS - there
        assert np.all(off == off[0]) and abs(off[0]) <= 2, (index, off, ear.said())
        assert np.array_equal(samples, samples[:, :1] + np.arange(CHANNELS)), samples[:3]
    for frame in ear.frames:
        taken_ns = begun_ns + int(frame.data[0, 0]) // CHANNELS * SECOND // FS_HZ
        assert abs(frame.utc_ns - taken_ns) < SECOND, (frame.utc_ns, begun_ns, frame.index)
    return runs


def gaps(ear):
    runs = ear.runs()
    return [b[0] - a[0] - len(a[1]) for a, b in zip(runs, runs[1:])]


def tell(card, name, text=""):
    (card / "new").write_text(text)
    (card / "new").rename(card / name)  # with all that is in it


def try_card(folder):
    """A card that is read in time; two overruns; it is pulled out and put in again. What is missing is exactly what was lost
    by the card's own position. A busy machine may have more overruns."""
    if not (plugins and (plugins / "own_card.so").exists()):
        return print("skipped: card: there is no plugin of ALSA's; libasound2-dev")
    env, card = alsa(folder), folder / "own_card"
    ear = Ear(folder, "alsa:own", *CARD, env=env).listen(at_least(4000))
    for skip_s, least_s in (("3.7", 3.2), ("61.07", 60.5)):
        tell(card, "skip", skip_s)
        wait_for(lambda: max(gaps(ear), default=0) > least_s * FS_HZ, ear)
    assert "full" not in ear.said() and "opened again" not in ear.said(), ear.said()
    tell(card, "gone")
    while "it is opened again" not in ear.said():
        assert ear.tool.poll() is None, ear.said()
        time.sleep(0.02)
    tell(card, "skip", "100")
    (card / "gone").unlink()
    wait_for(lambda: max(gaps(ear)) > 100 * FS_HZ, ear)
    ear.end(number=signal.SIGTERM)
    expect_positions(ear, int((card / "begun").read_text()))
    assert "times the sound card's buffer was full" in ear.said() and "it is there again" in ear.said(), ear.said()
    for gap in gaps(ear):
        assert f" {gap} samples (" in ear.said() and "by the sound card's time stamps" in ear.said(), (gap, ear.said())


def try_card_files(folder):
    """ALSA's own plugins: a file in place of a card, in each format; a card that another plugin resamples is what was
    declared."""
    if not plugins:
        return
    env, samples = alsa(folder), sea(20000)
    del env["LD_PRELOAD"]
    for kind, data, wanted in (("S16_LE", samples, samples), ("s16le", samples, samples),
                               ("S24_3LE", (samples.astype("<i4") * 200).view("u1").reshape(-1, 4)[:, :3], samples.astype("i4") * 200),
                               ("S32_LE", samples.astype("<i4") * 200, samples.astype("i4") * 200),
                               ("FLOAT_LE", samples.astype("<f4") / 3, samples.astype("<f4") / 3)):
        (folder / "played.raw").write_bytes(data.tobytes())
        ear = Ear(folder, "alsa:played", "--format", kind, *RAW[2:], "--utc", "0", env=env).listen(at_least(len(samples)))
        ear.end(number=signal.SIGTERM)
        (run,) = ear.runs()
        assert np.array_equal(run[1][:len(samples)], wanted), (kind, ear.said())
    ear = Ear(folder, "alsa:resampled", *RAW[:4], "--rate", 48000, "--utc", "0", env=env).listen(at_least(20000))
    assert len(ear.end(number=signal.SIGTERM).runs()) == 1, ear.said()


def try_card_mistakes(folder):
    if not (plugins and (plugins / "own_card.so").exists()):
        return
    env = alsa(folder)
    for words, device, *more in ((["there is no such device", "own"], "none", *CARD),
                                 (["is no input", "alsa:DEVICE"], "", *CARD),
                                 (["--format, --channels and --rate"], "own"),
                                 (["--format can be S32_LE"], "own", "--format", "s16le", *CARD[2:]),
                                 (["--format can be S32_LE"], "plugged", "--format", "s16le", *CARD[2:]),
                                 (["--format can be S32_LE"], "own", "--format", "s32be", *CARD[2:]),
                                 (["does not give 8 channels", "3 to 3"], "plugged", *CARD[:2], "--channels", "8", *CARD[4:]),
                                 (["8000 Hz", "48000", "nothing is resampled"], "own", *CARD[:4], "--rate", "48000"),
                                 (["8000 Hz", "48000", "nothing is resampled"], "plugged", *CARD[:4], "--rate", "48000"),
                                 (["8000 Hz", "8000.5"], "own", *CARD[:4], "--rate", "8000.5")):
        done = subprocess.run([binaries / "sonar-feed", f"alsa:{device}", "--endpoint", f"ipc://{folder}/in", "--array-id", "1",
                               *more], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=PATIENCE_S, env=env)
        assert done.returncode == 2 and all(word in done.stderr for word in words), (words, done)
        assert "ALSA lib" not in done.stderr, done


def try_mistakes(folder):
    config = folder / "array.yaml"
    config.write_text("schema: 1\narray: {id: 1, geometry: {line: {sensors: 4, spacing_m: 0.75}}}\nfs_hz: 8000\n"
                      f"ingest: {{endpoints: [\"ipc://{folder}/in\"]}}\ncbf: {{band_hz: [400, 950]}}\n")
    raw = folder / "sea.raw"
    raw.write_bytes(sea(1000).tobytes())
    for words, *arguments in (
            (["one input is wanted"],),
            (["--config, or --endpoint"], "-"),
            (["is no input", "udp://ADDRESS:PORT"], "http://x:1", "-c", config),
            (["is no input"], "tcp://x", "-c", config),
            (["belong together"], raw, "-c", config, "--format", "s16le"),
            (["--format", "s24le"], raw, "-c", config, "--format", "s12"),
            (["four bytes", "S24_3LE"], raw, "-c", config, "--format", "S24_LE"),
            (["OFFSET:BYTES"], raw, "-c", config, "--counter", "2:9:be"),
            (["raw samples need --format"], raw, "-c", config),
            (["no header"], "udp://127.0.0.1:9", "-c", config),
            (["none.raw"], folder / "none.raw", "-c", config, *RAW),
            (["3 channels, but the configuration has 4"], raw, "-c", config, *RAW),
            (["4000 Hz, but the configuration has 8000"], raw, "-c", config, "--format", "s16le", "--channels", "4",
             "--rate", "4000")):
        done = subprocess.run([binaries / "sonar-feed", *map(str, arguments)], stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=PATIENCE_S)
        assert done.returncode == 2 and all(word in done.stderr for word in words), (words, done)


for name in names or [name[4:] for name in dir() if name.startswith("try_")]:
    with tempfile.TemporaryDirectory(prefix="sonar-feed-") as place:
        globals()[f"try_{name}"](pathlib.Path(place))
        print(f"{name}: as it should be", flush=True)
