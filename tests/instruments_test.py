#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""sonar-feed with instruments: conversations with servers of this test, which tell the truth and lie. Every sample that
arrives has to be the one of its channel and of its time, and what is missing has to be missing because a server left it
out or lied. instruments_test.py BINARIES [NAME...]. Exit 77: skipped."""
import json
import os
import pathlib
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time

from ear import Ear, PATIENCE_S, SECOND, binaries  # first, because it skips the test if there is no numpy or zmq

import numpy as np
import zmq

BASE_NS = int(np.datetime64("2026-03-01T12:00:00", "ns").astype(int))


def expect(ear, truth, rate, wanted, base_ns=BASE_NS):
    """truth[channel][k] was taken k / rate after base_ns. wanted: {channel: the k that have to arrive, and no others}. Each
    once, at its time; and all of an epoch count from one origin."""
    got, origins = {c: [] for c in wanted}, {}
    for epoch, first, index, utc_ns, fs_hz, data in ear.frames:
        assert fs_hz == rate
        at = (utc_ns - base_ns) * rate / SECOND
        k = round(at)
        assert abs(at - k) < 0.3, (at, ear.said())
        assert origins.setdefault(epoch, k - index) == k - index, (epoch, k, index, origins, ear.said())
        for c in range(data.shape[1]):
            assert np.array_equal(truth[first + c][k:k + len(data)], data[:, c]), (first + c, k, data[:5, c], ear.said())
            got[first + c].extend(range(k, k + len(data)))
    for c, there in got.items():
        assert there == sorted(set(there)) or len(origins) > 1, (c, "order")
        assert len(there) == len(set(there)), (c, "twice")
        lacking, extra = sorted(set(wanted[c]) - set(there)), sorted(set(there) - set(wanted[c]))
        assert not lacking and not extra, (c, lacking[:5], len(lacking), extra[:5], len(extra), ear.said())


class Server(threading.Thread):
    """One act for each connection, one after the other; an act returns to end its connection."""

    def __init__(self, *acts):
        super().__init__(daemon=True)
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.listener.settimeout(PATIENCE_S)
        self.port, self.acts, self.wrong, self.over = self.listener.getsockname()[1], acts, None, threading.Event()
        self.start()

    def run(self):
        try:
            for act in self.acts:
                with self.listener.accept()[0] as connection:
                    connection.settimeout(PATIENCE_S)
                    act(connection)
        except Exception as error:  # the test tells it
            self.wrong = error
        self.listener.close()

    def hold(self):
        """The end of the last act: until the test is over."""
        self.over.wait(PATIENCE_S)

    def finish(self):
        self.over.set()
        self.join(PATIENCE_S)
        assert not self.wrong, self.wrong


def saying(prepare, sent):
    """An act: prepare(connection), then these bytes, then nothing until the other end leaves."""
    def act(connection):
        prepare(connection)
        connection.sendall(sent)
        while connection.recv(4096):
            continue
    return act


# ---- SeedLink ------------------------------------------------------------------------------------

STEIM1, STEIM2, INT16, INT32, FLOAT32, FLOAT64 = 10, 11, 1, 3, 4, 5
FORMS = {1: [(8, 4, 1, None), (16, 2, 2, None), (32, 1, 3, None)],
         2: [(4, 7, 3, 2), (5, 6, 3, 1), (6, 5, 3, 0), (8, 4, 1, None), (10, 3, 2, 3), (15, 2, 2, 2), (30, 1, 2, 1)]}


def steim(samples, version, room):
    """The samples that fit into `room` bytes, as frames; and their number. Big-endian words."""
    differences = [int(samples[0])] + [int(b) - int(a) for a, b in zip(samples, samples[1:])]
    if version == 2:
        differences[0] = 0
    words, codes, at = [], [], 0
    while at < len(differences) and len(words) < room // 64 * 15 - 2:
        for bits, count, code, more in FORMS[version]:
            part = differences[at:at + count]
            if len(part) == count and all(-(1 << bits - 1) <= d < 1 << bits - 1 for d in part):
                word = 0
                for d in part:
                    word = word << bits | (d & (1 << bits) - 1)
                words.append(word | ((more << 30) if more is not None else 0))
                codes.append(code)
                at += count
                break
    words, codes = [int(samples[0]) & 0xffffffff, int(samples[at - 1]) & 0xffffffff, *words], [0, 0, *codes]
    out = b""
    for i in range(0, len(words), 15):
        control = 0
        for j, code in enumerate(codes[i:i + 15]):
            control |= code << (28 - 2 * j)
        frame = [control, *words[i:i + 15]]
        out += struct.pack(">16I", *frame, *[0] * (16 - len(frame)))
    return out, at


def record(name, start, truth, rate, encoding=STEIM2, order=">", count=10**6, factor=None, shift_ns=0, fields=None):
    """A record of miniSEED with truth[start...], and the number of its samples."""
    net, sta, loc, cha = name.split("_")
    samples = truth[start:start + count]
    begin = 64
    if encoding in (STEIM1, STEIM2):
        data, n = steim(samples, encoding - 9, 448)
        if order == "<":
            data = np.frombuffer(data, ">u4").astype("<u4").tobytes()
    else:
        kind = order + {INT16: "i2", INT32: "i4", FLOAT32: "f4", FLOAT64: "f8"}[encoding]
        n = min(len(samples), 448 // np.dtype(kind).itemsize)
        data = np.asarray(samples[:n]).astype(kind).tobytes()
    ns = BASE_NS + start * SECOND // rate + shift_ns
    moment = np.datetime64(ns, "ns")
    year = moment.astype("datetime64[Y]").astype(int) + 1970
    day = (moment.astype("datetime64[D]") - np.datetime64(f"{year}-01-01")).astype(int) + 1
    second, rest = divmod(ns // 1000, 10**6)
    ticks = (rest + 50) // 100
    micro = rest - 100 * ticks
    if ticks == 10000:
        ticks, micro = 9999, micro + 100
    of = dict(samples=n, factor=factor or rate, multiplier=1, flags=0, correction=0, begin=begin, length=9, encoding=encoding,
              swap=order == ">")
    of.update(fields or {})
    head = b"000001D " + sta.ljust(5).encode() + loc.ljust(2).encode() + cha.encode() + net.ljust(2).encode()
    head += struct.pack(order + "HHBBBBHHhhBBBBiHH", year, day, second // 3600 % 24, second // 60 % 60, second % 60, 0, ticks,
                        of["samples"], of["factor"], of["multiplier"], of["flags"], 0, 0, 2, of["correction"], of["begin"], 48)
    head += struct.pack(order + "HHBBBB", 1000, 56, of["encoding"], of["swap"], of["length"], 0)
    head += struct.pack(order + "HHBbBB", 1001, 0, 100, micro, 0, 7)
    return (head.ljust(begin, b"\0") + data).ljust(512, b"\0")[:512], n


def records(name, truth, rate, begin=0, end=None, **how):
    """All of truth[begin:end], as (first k, record)."""
    out, end = [], len(truth) if end is None else end
    while begin < end:
        data, n = record(name, begin, truth[:end], rate, **how)
        out.append((begin, data))
        begin += n
    return out


def packet(number, data):
    return b"SL%06X" % (number & 0xffffff) + data


def greet(connection, asked=None):
    """The server's part of the handshake; what was asked is appended to `asked`."""
    lines = connection.makefile("rb")
    while True:
        line = lines.readline()
        assert line.endswith(b"\r\n"), line
        line = line.decode().strip()
        if asked is not None:
            asked.append(line)
        if line == "END":
            return
        connection.sendall(b"SeedLink v3.3 (2026.001)\r\nA server of a test\r\n" if line == "HELLO" else b"OK\r\n")


def waves(channels, samples, seed=3, most=60000):
    """A walk, so that all lengths of differences occur."""
    rng = np.random.default_rng(seed)
    steps = rng.integers(-8, 9, (channels, samples)) * 10 ** rng.integers(0, 4, (channels, samples))
    return np.clip(np.cumsum(steps, axis=1), -most, most).astype("i4")


def by_time(*lists):
    return [data for _, data in sorted((item for one in lists for item in one), key=lambda item: item[0])]


def try_seedlink(folder):
    """A conversation with three channels of two stations, in four encodings and both byte orders; channels come at
    different times."""
    names, rate = ["IM_I57H1__BDF", "IM_I57H2_01_BDF", "IM_I57H1_10_BDF"], 20
    truth = waves(3, 4000, most=30000)
    asked = []
    three = [records(names[0], truth[0], rate, 0, 2000, shift_ns=-SECOND // 2, fields={"correction": 5000}) +  # not applied yet
             records(names[0], truth[0], rate, 2000, fields={"correction": 5000, "flags": 2, "factor": 200, "multiplier": -10}),
             records(names[1], truth[1], rate, 700, encoding=STEIM1, order="<"),
             records(names[2], truth[2], rate, 0, 1500, encoding=INT16) +
             records(names[2], truth[2], rate, 1500, 2500, encoding=INT32, order="<") +
             records(names[2], truth[2], rate, 2500, 3300, encoding=FLOAT32) +
             records(names[2], truth[2], rate, 3300, encoding=FLOAT64, order="<")]
    # the second channel begins later and comes first
    order = by_time([(k + 500, r) for k, r in three[0]], [(k - 300, r) for k, r in three[1]], [(k + 700, r) for k, r in three[2]])

    def act(connection):
        greet(connection, asked)
        stream = b"".join(packet(i + 7, data) for i, data in enumerate(order))
        for i in range(0, len(stream), 333):  # packets are cut anywhere
            connection.sendall(stream[i:i + 333])
        server.hold()

    server = Server(act)
    ear = Ear(folder, f"seedlink://127.0.0.1:{server.port}/" + ",".join(names))
    ear.listen(lambda ear: [ear.counts().get(c, 0) for c in range(3)] == [4000, 3300, 4000])
    server.finish()
    ear.end(number=signal.SIGTERM)
    expect(ear, truth, rate, {0: range(4000), 1: range(700, 4000), 2: range(4000)})
    assert asked == ["HELLO", "STATION I57H1 IM", "SELECT BDF.D", "SELECT 10BDF.D", "DATA", "STATION I57H2 IM",
                     "SELECT 01BDF.D", "DATA", "END"], asked
    assert json.loads((folder / "summary").read_text())["samples"] == 4000


def try_seedlink_again(folder):
    """The connection ends within a record, and again within an answer; the server goes on where it is asked to, and sends
    some of it twice. Nothing is lost."""
    names, rate = ["XX_A_00_HDF", "XX_B_00_HDF"], 50
    truth = waves(2, 3000)
    order = by_time(records(names[0], truth[0], rate), records(names[1], truth[1], rate))
    asked = []

    def first(connection):
        greet(connection)
        connection.sendall(b"".join(packet(0xfffffe + i, data) for i, data in enumerate(order[:6]))[:-200])

    def second(connection):
        connection.recv(7)
        connection.sendall(b"SeedLink v")

    def third(connection):
        greet(connection, asked)
        connection.sendall(b"".join(packet(0xfffffe + i, data) for i, data in enumerate(order) if i >= 3))
        server.hold()

    server = Server(first, second, third)
    ear = Ear(folder, f"seedlink://127.0.0.1:{server.port}/" + ",".join(names))
    ear.listen(lambda ear: min([ear.counts().get(c, 0) for c in range(2)]) == 3000)
    server.finish()
    ear.end(number=signal.SIGINT)
    expect(ear, truth, rate, {c: range(3000) for c in range(2)})
    resumed = [line for line in asked if line.startswith("DATA")]
    assert sorted(resumed) == ["DATA 000002", "DATA 000003"], asked
    assert "bytes into a message" in ear.said() and "had come before" in ear.said() + "had come before", ear.said()


def try_seedlink_gaps(folder):
    """Records that are missing are gaps of their channels alone; a channel that stays away is a gap after --align, and is
    back as soon as it comes."""
    names, rate = ["XX_A__HDF", "XX_B__HDF", "XX_C__HDF"], 100
    truth = waves(3, 12000)
    wanted = {c: set(range(12000)) for c in range(3)}
    parts = [records(name, truth[c], rate) for c, name in enumerate(names)]
    for c, i in ((0, 4), (1, 9), (1, 10)):
        wanted[c] -= set(range(parts[c][i][0], parts[c][i + 1][0]))
    lone = parts[0][:4] + parts[0][5:], parts[1][:9] + parts[1][11:]
    away = [item for item in parts[2] if not 3000 <= item[0] < 9000]
    left = [i for i, item in enumerate(parts[2]) if 3000 <= item[0] < 9000]
    wanted[2] -= set(range(parts[2][left[0]][0], parts[2][left[-1] + 1][0]))
    order = by_time(*lone, [(k - 800, data) for k, data in away])  # it returns in time

    def act(connection):
        greet(connection)
        connection.sendall(b"".join(packet(i, data) for i, data in enumerate(order)))
        server.hold()

    server = Server(act)
    ear = Ear(folder, f"seedlink://127.0.0.1:{server.port}/" + ",".join(names), "--align", 15)
    ear.listen(lambda ear: all(ear.counts().get(c, 0) == len(wanted[c]) for c in range(3)))
    server.finish()
    ear.end(number=signal.SIGTERM)
    expect(ear, truth, rate, wanted)
    assert "XX_C__HDF: nothing for" in ear.said() and "1 times a channel stayed away" in ear.said(), ear.said()
    assert max(len(data) for *_, data in ear.frames) <= 25, "a frame is longer than a daemon waits for other digitisers"


def try_seedlink_lies(folder):
    """Between good records come others that are wrong in one way each: all good samples arrive, no other one does, and each
    lie is told."""
    names, rate = ["XX_A__HDF", "XX_B__HDF"], 100
    truth = waves(2, 9000)
    good = by_time(records(names[0], truth[0], rate), records(names[1], truth[1], rate))
    at = len(good) // 2
    now = 4500

    def false(**how):
        return record(names[0], now, truth[0] + 5, rate, **how)[0]

    def bent(offset, *bytes_there):
        data = bytearray(false())
        data[offset:offset + len(bytes_there)] = bytes(bytes_there)
        return bytes(data)

    lies = [
        ("2^12", false(fields={"length": 12})),
        ("encoding 19", false(fields={"encoding": 19})),
        ("fewer samples than its header", false(fields={"samples": 700})),
        ("do not fit", false(fields={"samples": 60000})),
        ("do not fit", false(fields={"begin": 600})),
        ("last sample", bent(72, 1, 2, 3, 4)),           # the last sample of frame 0
        ("blockette 1000", bent(46, 0, 0)),              # no blockette
        ("blockette 1000", bent(46, 1, 0xfe)),           # beyond the end
        ("blockette 1000", bent(50, 0, 48)),             # blockettes in a circle
        ("no header of miniSEED", bent(20, 0, 0)),       # the year 0
        ("no header of miniSEED", os.urandom(512)),
        ("not asked for", record("XX_Z__HDF", now, truth[0], rate)[0]),
        ("another rate", false(factor=200)),
        ("another rate", false(factor=99)),
        ("another rate", bent(56, 0, 100, 0, 0, *struct.pack(">f", 101))),  # blockette 100 knows it better
        ("too late", false(shift_ns=-20 * SECOND)),
        ("far from", false(shift_ns=3600 * SECOND)),
        ("far from", false(shift_ns=-86400 * SECOND)),
        ("far from", false(shift_ns=10**9 * SECOND)),
        (None, false(fields={"samples": 0})),            # a record without samples is none
    ]
    numbers = iter(range(10**6))

    def act(connection):
        greet(connection)
        for i, data in enumerate(good):
            connection.sendall(packet(next(numbers) * 1000, data))  # the numbers jump
            if i == at:
                for what, lie in lies:
                    connection.sendall(packet(next(numbers), lie) + packet(next(numbers), b"\0" * 512))
                    connection.sendall(packet(next(numbers), good[i]))  # twice
        server.hold()

    server = Server(act)
    ear = Ear(folder, f"seedlink://127.0.0.1:{server.port}/" + ",".join(names), "--align", 5)
    ear.listen(lambda ear: min([ear.counts().get(c, 0) for c in range(2)]) == 9000)
    server.finish()
    ear.end(number=signal.SIGTERM)
    expect(ear, truth, rate, {c: range(9000) for c in range(2)})
    said = ear.said()
    unreadable = sum(what is not None and what not in ("not asked for", "another rate", "too late", "far from") for what, _ in lies)
    for words in (f"{unreadable + len(lies)} could not be read", "1 were not asked for", "3 had another rate",
                  f"{len(lies) + 1} came too late", "3 had a time far from", f"{len(lies)} came twice"):
        assert words in said, (words, said)
    assert "2^12" in said and "twice" in said


def try_seedlink_garbage(folder):
    """Servers that are none, or fall out of their role: each is left and dialled again, and told what it said."""
    names, rate = ["XX_A__HDF"], 100
    truth = waves(1, 1000)
    good = b"".join(packet(i, data) for i, data in enumerate(by_time(records(names[0], truth[0], rate))))

    def after_greeting(sent):
        return saying(greet, sent)

    def before_greeting(sent):
        return saying(lambda connection: connection.recv(100), sent)

    def last(connection):
        greet(connection)
        connection.sendall(packet(0, b"\0" * 512) + b"SLINFO *" + b"\0" * 512 + good)
        server.hold()

    server = Server(before_greeting(b"HTTP/1.1 400 Bad Request\r\nServer: nginx\r\nDate: now\r\n\r\n"), before_greeting(b"\xff" * 500),
                    after_greeting(b"GARBAGE " * 100), after_greeting(b"SLXYZXYZ" + b"\0" * 512), after_greeting(b"END"), last)
    ear = Ear(folder, f"seedlink://127.0.0.1:{server.port}/" + ",".join(names))
    ear.listen(lambda ear: ear.counts().get(0, 0) == 1000)
    server.finish()
    ear.end(number=signal.SIGTERM)
    expect(ear, truth, rate, {0: range(1000)})
    assert "6 could not be read" in ear.said() and "Date: now" in ear.said(), ear.said()


def try_seedlink_jumps(folder):
    """The clock of all channels is set: later is a gap, earlier a new stream. That of one channel is not followed."""
    names, rate = ["XX_A__HDF", "XX_B__HDF", "XX_C__HDF"], 100
    truth = waves(3, 9000)
    hour = 3600 * SECOND
    stages = [(0, 3000, 0), (3000, 6000, hour), (6000, 9000, -2 * hour)]
    order = []
    for begin, end, shift in stages:
        order += by_time(*[records(name, truth[c], rate, begin, end, shift_ns=shift) for c, name in enumerate(names)])
    lonely = [data for _, data in records(names[0], truth[0] + 9, rate, 3000, 6000, shift_ns=5 * hour)]
    order[len(order) // 2:len(order) // 2] = lonely

    def act(connection):
        greet(connection)
        connection.sendall(b"".join(packet(i, data) for i, data in enumerate(order)))
        server.hold()

    server = Server(act)
    ear = Ear(folder, f"seedlink://127.0.0.1:{server.port}/" + ",".join(names), "--align", 5)
    last = lambda ear: any(f[3] + len(f[5]) * SECOND // rate >= BASE_NS + 90 * SECOND - 2 * hour - SECOND // rate and
                           f[3] < BASE_NS for f in ear.frames)
    ear.listen(last)
    server.finish()
    ear.end(number=signal.SIGTERM)
    epochs = sorted({f[0] for f in ear.frames})
    assert len(epochs) == 2 and epochs[1] == epochs[0] + 1, (epochs, ear.said())
    index = {}
    for epoch, first, at, utc_ns, _, data in ear.frames:
        shift = next(s for s in (-2 * hour, 0, hour, 5 * hour) if 0 <= utc_ns - BASE_NS - s < 100 * SECOND)
        k = round((utc_ns - BASE_NS - shift) * rate / SECOND)
        begin, end, _ = next(stage for stage in stages if stage[2] == shift)
        assert begin <= k and k + len(data) <= end, (k, shift)
        assert index.setdefault((epoch, shift), k - at) == k - at
        for c in range(data.shape[1]):
            assert np.array_equal(truth[first + c][k:k + len(data)], data[:, c]), (c, k, shift)
    together = {epoch if utc_ns < BASE_NS + hour else "later" for epoch, _, _, utc_ns, _, data in ear.frames if data.shape[1] == 3}
    assert together == {epochs[1], "later"}, (together, "after a jump a daemon goes on at once only with all channels")
    assert index[epochs[0], 0] - index[epochs[0], hour] == 3600 * rate, index
    counts, most = ear.counts(), 7 * 105  # only what came first after a jump is left out
    assert counts[0] >= 9000 - 2 * most and counts[1] == counts[2] == 9000, counts


def try_seedlink_clock(folder):
    """A channel that is sampled between the others and whose clock drifts by a quarter of a sample: its samples still follow
    on each other, and it is told."""
    names, rate = ["XX_A__HDF", "XX_B__HDF"], 100
    truth = waves(2, 6000)
    a = records(names[0], truth[0], rate)
    b = [(k, record(names[1], k, truth[1], rate, shift_ns=4_000_000 + 400 * k)[0]) for k, _ in records(names[1], truth[1], rate)]

    def act(connection):
        greet(connection)
        connection.sendall(b"".join(packet(i, data) for i, data in enumerate(by_time(a, b))))
        server.hold()

    server = Server(act)
    ear = Ear(folder, f"seedlink://127.0.0.1:{server.port}/" + ",".join(names), "--align", 5)
    ear.listen(lambda ear: min([ear.counts().get(c, 0) for c in range(2)]) == 6000)
    server.finish()
    ear.end(number=signal.SIGTERM)
    expect(ear, truth, rate, {c: range(6000) for c in range(2)})
    assert "XX_B__HDF: it is sampled +0.40 of a sample beside" in ear.said() and "slip" not in ear.said(), ear.said()


def try_seedlink_mistakes(folder):
    config = folder / "array.yaml"
    config.write_text("schema: 1\narray: {id: 1, geometry: {line: {sensors: 4, spacing_m: 0.75}}}\nfs_hz: 8000\n"
                      f"ingest: {{endpoints: [\"ipc://{folder}/in\"]}}\ncbf: {{band_hz: [400, 950]}}\n")

    def refuse(connection):
        lines = connection.makefile("rb")
        assert lines.readline() == b"HELLO\r\n"
        connection.sendall(b"SeedLink v3.1\r\nno stations\r\n")
        assert lines.readline() == b"STATION A XX\r\n"
        connection.sendall(b"ERROR\r\n")
        connection.recv(1)

    def one_record(connection):
        greet(connection)
        connection.sendall(packet(1, record("XX_A__HDF", 0, waves(1, 100)[0], 100)[0]))
        connection.recv(1)

    refusing, other = Server(refuse), Server(one_record)
    for words, *arguments in (
            (["is no channel", "NET_STA_LOC_CHAN"], "seedlink://h/XX_A_HDF"),
            (["'XX_*__HDF' is no channel"], "seedlink://h/XX_*__HDF"),
            (["'XX_TOOLONG__HDF'"], "seedlink://h/XX_TOOLONG__HDF"),
            (["named twice"], "seedlink://h/XX_A__HDF,XX_B__HDF,XX_A_--_HDF"),
            (["is not of the form", "seedlink://HOST"], "seedlink://h"),
            (["names no channel"], "seedlink://h:18000/"),
            (["is not of the form"], "seedlink://h:port/XX_A__HDF"),
            (["an instrument tells its type"], "seedlink://h/XX_A__HDF", "--utc", "0"),
            (["--align is for instruments"], "-", "--align", "5"),
            (["ERROR to 'STATION A XX'", "no such channel"], f"seedlink://127.0.0.1:{refusing.port}/XX_A__HDF"),
            (["1 channels, but the configuration has 4"], f"seedlink://127.0.0.1:{other.port}/XX_A__HDF")):
        done = subprocess.run([binaries / "sonar-feed", *map(str, arguments), "-c", config], stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=PATIENCE_S)
        assert done.returncode == 2 and all(word in done.stderr for word in words), (words, done)
    refusing.finish()
    other.finish()


# ---- icListen ------------------------------------------------------------------------------------

START = bytes([0x33, 0x2a, 0, 4, 0, 0, 0, 0])


def chunk(kind, body):
    return kind.encode() + struct.pack(">BH", 0, len(body)) + body


def message(kind, *chunks):
    body = b"".join(chunks)
    return kind.encode() + struct.pack(">BH", 0x2a, len(body)) + body


def epoch(second, count):
    return chunk("A", struct.pack(">IQ", second, count))


def about(second, count, rate, form=0x83):
    """As a device sends it: time, device, sensors, rate, scale."""
    return message("2", epoch(second, count), chunk("D", bytes(8)), chunk("C", bytes(20)),
                   chunk("E", struct.pack(">IHBB", rate, 0, form, 0xff)),
                   chunk("G", struct.pack(">HHiiii", 1, 3, 8388607, -8388608, 3000000, -3000000)))


def sound(second, count, first, data, form=0x83, points=None, channels=None):
    """data[channel][samples]."""
    data = np.atleast_2d(data)
    body = data.T.astype("<i4").copy().view("u1").reshape(-1, 4)[:, :3].tobytes()
    return message("1", epoch(second, count),
                   chunk("B", struct.pack(">IBBH", first, channels or len(data), form, points or data.shape[1]) + body))


def messages(data, second, count, begin=0, end=None, size=476, first=0):
    """All of data[begin:end], whose sample 0 has the counter `count`, at this second; as (k, message)."""
    end = data.shape[-1] if end is None else end
    return [(k, sound(second, count, first + k, data[..., k:min(end, k + size)])) for k in range(begin, end, size)]


def begun(connection):
    got = b""
    while len(got) < len(START):
        got += connection.recv(len(START) - len(got))
    assert got == START, got


BASE_S = BASE_NS // SECOND
AUDIO = 128000


def try_iclisten(folder):
    """A device's own bytes, from a recorded conversation; then one of two channels, cut anywhere, with a second epoch."""
    device = bytes.fromhex("322a00584100000c5e6490dd00000000123810004400000805020208072df952430000140106016b600101000000000000"
                           "00000000000000450000080001f400000083004700001400010003007fffffff800000002dc6c0ffd23940"
                           "312a05b04100000c5e6490dd00000000123810004200059c00000000018301dc")
    counts = waves(1, 476, most=8000000)[0]

    def recorded(connection):
        begun(connection)
        connection.sendall(device + counts.astype("<i4").view("u1").reshape(-1, 4)[:, :3].tobytes())
        server.hold()

    server = Server(recorded)
    ear = Ear(folder, f"iclisten://127.0.0.1:{server.port}")
    ear.listen(lambda ear: ear.counts().get(0, 0) == 476)
    server.finish()
    ear.end(number=signal.SIGTERM)
    expect(ear, counts[None], AUDIO, {0: range(476)}, base_ns=0x5e6490dd * SECOND)
    assert "128000 Hz; 8388607 counts are 3 V" in ear.said(), ear.said()

    truth = waves(2, 100000, most=8000000)

    def act(connection):
        begun(connection)
        stream = about(BASE_S, 777, AUDIO) + message("9", b"unknown") + \
            b"".join(data for _, data in messages(truth, BASE_S, 777, 0, 64000)) + \
            about(BASE_S, 777, AUDIO) + b"".join(data for _, data in messages(truth[:, 64000:], BASE_S, 777, first=64000))
        for i in range(0, len(stream), 9999):
            connection.sendall(stream[i:i + 9999])
        server.hold()

    server = Server(act)
    ear = Ear(folder, f"iclisten://127.0.0.1:{server.port}")
    ear.listen(lambda ear: ear.counts().get(1, 0) == 100000)
    server.finish()
    ear.end(number=signal.SIGTERM)
    expect(ear, truth, AUDIO, {0: range(100000), 1: range(100000)})


def try_iclisten_array(folder):
    """Three hydrophones with counters of their own, one of which begins late, one of which breaks off within a message and
    comes back: each sample at its time, the pause is a gap of that hydrophone alone."""
    truth, n = waves(3, 96000, most=8000000), 96000
    late, lost = 4760, (30 * 476, 60 * 476)
    go = threading.Event()

    def all_of(c, count, begin=0):
        def act(connection):
            begun(connection)
            connection.sendall(about(BASE_S, count, AUDIO))
            for _, data in messages(truth[c], BASE_S, count, begin):
                connection.sendall(data)
            go.wait(PATIENCE_S)
        return act

    def breaks(connection):
        begun(connection)
        connection.sendall(about(BASE_S, 5, AUDIO) + b"".join(d for _, d in messages(truth[2], BASE_S, 5, 0, lost[0])) +
                           messages(truth[2], BASE_S, 5, lost[0])[0][1][:-100])

    servers = [Server(all_of(0, 10**12)), Server(all_of(1, 0, late)), Server(breaks, all_of(2, 5, lost[1]))]
    ear = Ear(folder, "iclisten://" + ",".join(f"127.0.0.1:{server.port}" for server in servers), "--align", 5)
    ear.listen(lambda ear: [ear.counts().get(c, 0) for c in range(3)] == [n, n - late, n - lost[1] + lost[0]])
    go.set()
    for server in servers:
        server.finish()
    ear.end(number=signal.SIGTERM)
    expect(ear, truth, AUDIO, {0: range(n), 1: range(late, n), 2: [*range(lost[0]), *range(lost[1], n)]})
    assert "bytes into a message" in ear.said(), ear.said()


def try_iclisten_lies(folder):
    """One lie each between good messages, then connections that fall out of their role."""
    truth, count = waves(1, 96000, most=8000000), 10**6
    good = messages(truth[0], BASE_S, count)
    now, lost, false = good[60][0], good[80][0], truth[0][5:481]  # lost: sent with a wrong time

    def cut(data, by):
        return data[:2] + struct.pack(">H", len(data) - 4 - by) + data[4:len(data) - by]

    lies = [
        ("unreadable", cut(sound(BASE_S, count, now, false), 3)),
        ("unreadable", cut(sound(BASE_S, count, now, false), 1440)),
        ("unreadable", sound(BASE_S, count, now, false, form=0x84)),
        ("unreadable", sound(BASE_S, count, now, false, points=475)),
        ("unreadable", sound(BASE_S, count, now, false, channels=2)),
        ("unreadable", message("1", epoch(BASE_S, count), chunk("B", bytes(7)))),
        ("unreadable", message("1", epoch(0xffffffff, count), chunk("B", bytes(8)))),
        ("unreadable", message("1", b"B")),
        ("unreadable", message("2", chunk("E", struct.pack(">IHBB", 0, 0, 0x83, 0)))),
        ("unreadable", message("2", chunk("A", b"1234"))),
        ("rate", sound(BASE_S, count, now, np.stack([false, false]))),
        ("rate", about(BASE_S, count, 64000) + sound(BASE_S, count, now, false) + about(BASE_S, count, AUDIO)),
        ("jump", sound(BASE_S + 3600, count, now, false)),
        ("jump", sound(BASE_S, count, now + 10**8, false)),
        ("jump", sound(BASE_S - 10**6, count, now, false)),
        ("late", sound(BASE_S, count, 0, false)),
        ("late", sound(BASE_S, count, now - 4760, false)),
    ]

    def act(connection):
        begun(connection)
        connection.sendall(sound(BASE_S, count, 0, false) + about(BASE_S, count, AUDIO))
        for k, data in good[:100]:
            connection.sendall(data if k != lost else sound(BASE_S + 3600, count, k, truth[0][k:k + 476]))
            if k == now:
                for _, lie in lies:
                    connection.sendall(lie)

    def garbage(sent):
        return saying(begun, sent)

    def rest(connection):
        begun(connection)
        connection.sendall(about(BASE_S, count, AUDIO) + b"".join(data for _, data in good[100:]))
        server.hold()

    server = Server(garbage(b"HTTP/1.1 400"), garbage(b"1\x2b\0\4"), act, rest)
    ear = Ear(folder, f"iclisten://127.0.0.1:{server.port}")
    ear.listen(lambda ear: ear.counts().get(0, 0) == 96000 - 476)
    server.finish()
    ear.end(number=signal.SIGTERM)
    expect(ear, truth, AUDIO, {0: [*range(lost), *range(lost + 476, 96000)]})
    said, kinds = ear.said(), [kind for kind, _ in lies]
    for words in (f"{kinds.count('unreadable') + 3} could not be read", f"{kinds.count('rate')} had another rate",
                  f"{kinds.count('jump') + 1} had a time far", f"{kinds.count('late')} came too late", "HTTP/1.1"):
        assert words in said, (words, said)


def try_iclisten_clock(folder):
    """One hydrophone whose clock is 100 ppm fast against the time that it tells: no sample is lost or shifted, and the time
    follows. After its time was set back by an hour a new stream begins."""
    truth, n = waves(1, 20 * 8000, most=8000000), 20 * 8000
    stream, true_rate = [about(BASE_S, 0, 8000)], 8000.8
    for k in range(0, n, 400):
        second = int(k / true_rate)
        there = round(second * true_rate)
        stream.append(sound(BASE_S + second, there, k - there, truth[0][k:k + 400]))

    def act(connection):
        begun(connection)
        connection.sendall(b"".join(stream))
        connection.sendall(b"".join(data for _, data in messages(truth[0], BASE_S - 3600, 0, 0, 4760)))
        server.hold()

    server = Server(act)
    ear = Ear(folder, f"iclisten://127.0.0.1:{server.port}")
    ear.listen(lambda ear: ear.counts().get(0, 0) >= n + 4760 - 476)
    server.finish()
    ear.end(number=signal.SIGTERM)
    first, at = ear.frames[0][0], 0
    for epoch_there, _, index, utc_ns, _, data in ear.frames:
        if epoch_there == first:
            assert index == at and np.array_equal(truth[0][at:at + len(data)], data[:, 0]), (index, at)
            assert abs(utc_ns - BASE_NS - at / true_rate * SECOND) < 1.5 * SECOND / 8000, (at, utc_ns)
            at += len(data)
    assert at == n and {f[0] for f in ear.frames} == {first, first + 1}, (at, ear.said())
    assert "1 had a time far" in ear.said(), ear.said()


def try_iclisten_mistakes(folder):
    def phone(rate):
        def act(connection):
            begun(connection)
            connection.sendall(about(BASE_S, 0, rate) + sound(BASE_S, 0, 0, np.arange(100)))
            connection.recv(1)
        return act

    fast, slow = Server(phone(8000)), Server(phone(4000))
    for words, where in ((["is not of the form", "iclisten://HOST"], "iclisten://"), (["is not of the form"], "iclisten://a,,b"),
                         (["is not of the form"], "iclisten://a:b"), (["more than 64"], "iclisten://" + ",".join(["a"] * 65)),
                         (["8000 Hz", "4000 Hz", "one rate"], f"iclisten://127.0.0.1:{fast.port},127.0.0.1:{slow.port}")):
        done = subprocess.run([binaries / "sonar-feed", where, "--endpoint", f"ipc://{folder}/in", "--array-id", "1"],
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=PATIENCE_S)
        assert done.returncode == 2 and all(word in done.stderr for word in words), (words, done)
    fast.finish()
    slow.finish()


# ---- interrogators of fibres ---------------------------------------------------------------------


def bind_again(kind, port, options={}):
    """A socket in the place of another one that was closed: the port may be free only later."""
    again = zmq.Context.instance().socket(kind)
    for option, value in options.items():
        again.setsockopt(option, value)
    until = time.monotonic() + PATIENCE_S
    while True:
        try:
            again.bind(f"tcp://127.0.0.1:{port}")
            return again
        except zmq.ZMQError:
            assert time.monotonic() < until
            time.sleep(0.05)


# ---- OptoDAS -------------------------------------------------------------------------------------


class Fibre:
    """An XPUB like the instrument's. What was published before sonar-feed subscribed is lost, so each test begins when it
    has."""

    def __init__(self, channels, packages, rate, kind="float", **more):
        self.socket = zmq.Context.instance().socket(zmq.XPUB)
        self.socket.sndhwm = 0
        self.socket.setsockopt(zmq.LINGER, 0)
        self.dtype = {"short": "<i2", "int": "<i4", "long": "<i8", "float": "<f4", "double": "<f8"}[kind]
        self.header = self.describe(channels, packages, rate, kind, **more)
        self.socket.setsockopt(zmq.XPUB_WELCOME_MSG, self.header)
        self.port = self.socket.bind_to_random_port("tcp://127.0.0.1")

    def describe(self, channels, packages, rate, kind, **more):
        width = np.dtype({"short": "<i2", "int": "<i4", "long": "<i8", "float": "<f4", "double": "<f8"}[kind]).itemsize
        return json.dumps({"bytesPerPackage": channels * width, "nPackagesPerMessage": packages, "nChannels": channels,
                           "dataType": kind, "dx": 4.08, "dt": 1000 / rate, "dtUnit": "ms", "dxUnit": "m",
                           "roiTable": [{"roiStart": 0, "roiEnd": channels - 1, "roiDec": 1}], **more}).encode()

    def wait(self):
        assert self.socket.poll(PATIENCE_S * 1000)
        assert self.socket.recv() == b"\x01"

    def data(self, truth, k, packages, rate, shift_ns=0):
        """truth[channel][k ...]"""
        return struct.pack("<q", BASE_NS + k * SECOND // rate + shift_ns) + \
            truth[:, k:k + packages].T.astype(self.dtype).tobytes()


def try_optodas(folder):
    """Every type; some channels of many; a header again that changes the number of packages; a message that is missing."""
    rate, channels, packages, n = 500, 40, 50, 2000
    truth = waves(channels, n, most=30000)
    for kind, choice, taken in (("float", "", range(40)), ("short", "/0-39", range(40)), ("int", "/3-38:5", range(3, 39, 5)),
                                ("long", "/39-39", [39]), ("double", "/10-19", range(10, 20))):
        fibre = Fibre(channels, packages, rate, kind)
        ear = Ear(folder, f"optodas://127.0.0.1:{fibre.port}{choice}")
        fibre.wait()
        for k in range(0, 1000, packages):
            if k != 500:
                fibre.socket.send(fibre.data(truth, k, packages, rate))
        fibre.socket.send(fibre.describe(channels, 2 * packages + 30, rate, kind))
        for k in range(1000, n - 130, 130):
            fibre.socket.send(fibre.data(truth, k, 130, rate))
        end = k + 130
        ear.listen(lambda ear: ear.counts().get(0, 0) == end - packages)
        ear.end(number=signal.SIGTERM)
        expect(ear, truth[list(taken)], rate, {c: [*range(500), *range(550, end)] for c in range(len(taken))})
        assert f"{len(taken)} channels of 40" in ear.said(), ear.said()
        fibre.socket.close()


def try_optodas_lies(folder):
    """One lie each between good messages."""
    rate, channels, packages = 1000, 7, 20
    truth = waves(channels, 4000)
    fibre = Fibre(channels, packages, rate)
    now = 2000
    false = fibre.data(truth + 3, now, packages, rate)
    spoilt = bytearray(false)
    spoilt[100:104] = struct.pack("<f", float("nan"))
    other = lambda **more: fibre.describe(channels, packages, rate, "float", **more)
    unusable = [other(bytesPerPackage=27), other(nChannels=8), other(nChannels=0), other(nPackagesPerMessage=1.5), other(dt=0),
                other(dt=-1), other(dtUnit="h"), other(dt="1"), other(dataType="half"), other(dataType=None), b"{}",
                other(nPackagesPerMessage=10**6, nChannels=4 * 10**6, bytesPerPackage=16 * 10**6)]
    lies = [("unreadable", false[:-1]), ("unreadable", false + b"0"), ("unreadable", b""), ("unreadable", b"{ no JSON"),
            ("unreadable", bytes(spoilt)), ("unreadable", struct.pack("<q", -1) + false[8:]),
            ("unreadable", struct.pack("<q", 2**63 - 1) + false[8:]), ("unreadable", os.urandom(5000)),
            *[("jump", fibre.data(truth + 3, now, packages, rate, by * SECOND)) for by in (3600, -3600, 10**9)],
            ("late", fibre.data(truth + 3, now - 200, packages, rate))]
    ear = Ear(folder, f"optodas://127.0.0.1:{fibre.port}")
    fibre.wait()
    for k in range(0, 4000, packages):
        fibre.socket.send(fibre.data(truth, k, packages, rate))
        if k == now:
            for _, lie in lies:
                fibre.socket.send(lie)
            for header in unusable:
                fibre.socket.send(header)
                fibre.socket.send(false)
            fibre.socket.send(other(nPackagesPerMessage=3 * packages))  # longer than a piece
            for shift_s in (0, 3600):
                fibre.socket.send(fibre.data(truth + 3, now - 200, 3 * packages, rate, shift_s * SECOND))
            fibre.socket.send(fibre.describe(channels + 1, packages, rate, "float"))
            fibre.socket.send(struct.pack("<q", BASE_NS) + bytes(4 * 8 * packages))
            fibre.socket.send(fibre.describe(channels, packages, rate / 2, "float"))
            fibre.socket.send(false)
            fibre.socket.send(fibre.header)
    ear.listen(lambda ear: ear.counts().get(0, 0) == 4000)
    ear.end(number=signal.SIGTERM)
    expect(ear, truth, rate, {c: range(4000) for c in range(channels)})
    said, kinds = ear.said(), [kind for kind, _ in lies]
    for words in (f"{kinds.count('unreadable') + 2 * len(unusable)} could not be read", "2 had another rate",
                  f"{kinds.count('jump') + 1} had a time far", f"{kinds.count('late') + 3} came too late"):
        assert words in said, (words, said)
    fibre.socket.close()


def try_optodas_decimated(folder):
    """One sample of ten, with its time: a slow tone is as it was, a fast one is gone; a gap is wider by the filter; after the
    clock was set back a new stream begins."""
    rate, channels, packages, n, by = 1000, 9, 37, 5920, 10
    t, phase = np.arange(n) / rate, np.arange(channels)[:, None]
    slow = 1000 * np.cos(2 * np.pi * 31 * t + phase)
    truth = slow + 1000 * np.cos(2 * np.pi * 271 * t)
    fibre = Fibre(channels, packages, rate)
    ear = Ear(folder, f"optodas://127.0.0.1:{fibre.port}/0-8:2", "--decimate", by)
    fibre.wait()
    for k in range(0, n, packages):
        if k != 80 * packages:
            fibre.socket.send(fibre.data(truth, k, packages, rate))
    for k in range(0, n, packages):
        fibre.socket.send(fibre.data(truth, k, packages, rate, -3600 * SECOND))
    last = lambda ear, epoch: max((index + len(data) for e, _, index, _, _, data in ear.frames if e == epoch), default=0)
    ear.listen(lambda ear: last(ear, ear.frames[0][0] + 1 if ear.frames else 0) * by > n - 6 * packages)
    ear.end(number=signal.SIGTERM)
    first, got = ear.frames[0][0], {0: [], 1: []}
    for epoch_there, _, index, utc_ns, fs_hz, data in ear.frames:
        turn = epoch_there - first
        k = (utc_ns - BASE_NS + turn * 3600 * SECOND) * rate / SECOND
        assert fs_hz == rate / by and abs(k - round(k)) < 0.01 and round(k) == index * by + (packages if turn else 0), (k, index)
        at = round(k) + by * np.arange(len(data))
        assert np.allclose(data, slow[::2, at].T, atol=1.5), (turn, k, np.abs(data - slow[::2, at].T).max())
        got[turn].extend(at)
    there, missing = np.array(got[0]), range(80 * packages, 81 * packages)
    reach = -(-int(there[0]) // by) * by  # the filter's, to whole samples
    lacking = set(range(by * (-(-reach // by)), int(there[-1]), by)) - set(got[0])
    assert 50 < reach < 200 and lacking and len(set(got[0])) == len(got[0]) and len(got[1]) > 500, (reach, len(got[1]))
    assert min(lacking) > missing[0] - reach - by and max(lacking) < missing[-1] + reach + by, (lacking, reach)
    assert len(lacking) * by > len(missing) + 2 * (reach - by), (lacking, reach)
    assert "one sample of 10 is sent, at 100 Hz" in ear.said() and "40 Hz" in ear.said(), ear.said()
    fibre.socket.close()


def try_optodas_again(folder):
    """The instrument is started again, an hour of its time later: a gap. Then its clock is set back: a new stream."""
    rate, channels, packages = 1000, 5, 100
    truth = waves(channels, 3000)
    fibre = Fibre(channels, packages, rate)
    ear = Ear(folder, f"optodas://127.0.0.1:{fibre.port}")
    for turn, shift_s in enumerate((0, 3600, -3600)):
        if turn == 1:
            fibre.socket.close()
            fibre.socket = bind_again(zmq.XPUB, fibre.port, {zmq.XPUB_WELCOME_MSG: fibre.header})
        if turn < 2:
            fibre.wait()
        for k in range(0, 3000, packages):
            fibre.socket.send(fibre.data(truth, k, packages, rate, shift_s * SECOND))
        ear.listen(lambda ear: ear.counts().get(0, 0) == 3000 + turn * 2900)
    ear.end(number=signal.SIGTERM)
    first = ear.frames[0][0]
    for epoch_there, _, index, utc_ns, _, data in ear.frames:
        k, shift_s = next((k, s) for s in (0, 3600, -3600) for k in [(utc_ns - BASE_NS - s * SECOND) * rate // SECOND]
                          if 0 <= k < 3000)
        assert np.array_equal(truth[:, k:k + len(data)].T, data), (k, shift_s)
        assert (epoch_there, index - k) == {0: (first, 0), 3600: (first, 3600 * rate), -3600: (first + 1, -packages)}[shift_s]
    assert "2 had a time far" in ear.said(), ear.said()
    fibre.socket.close()


def try_optodas_mistakes(folder):
    fibre, over = Fibre(5, 10, 100), threading.Event()
    answers = threading.Thread(target=lambda: [fibre.socket.poll(20) and fibre.socket.recv() for _ in iter(over.is_set, True)])
    answers.start()  # the socket greets when it is asked for events
    for words, where, *more in ((["is not of the form", "FIRST-LAST"], "optodas://h"), (["is not of the form"], "optodas://h:"),
                         (["is not of the form"], "optodas://h:x"), (["is not of the form"], "optodas://h:1/5"),
                         (["is not of the form"], "optodas://h:1/5-4"), (["is not of the form"], "optodas://h:1/5-6:0"),
                         (["is not of the form"], "optodas://h:1/5-6:1x"), (["is not of the form"], "optodas://h:1/-5-6"),
                         (["channels 0 to 4"], f"optodas://127.0.0.1:{fibre.port}/0-5"),
                         (["from 2 to 1000"], "optodas://h:1", "--decimate", "1"),
                         (["--decimate is for instruments"], "udp://127.0.0.1:1", "--decimate", "2")):
        done = subprocess.run([binaries / "sonar-feed", where, "--endpoint", f"ipc://{folder}/in", "--array-id", "1", *more],
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=PATIENCE_S)
        assert done.returncode == 2 and all(word in done.stderr for word in words), (words, done)
    over.set()
    answers.join()
    fibre.socket.close()


# ---- Febus A1 ------------------------------------------------------------------------------------


class Febus:
    """A REP like the instrument's. Each request gets the next of the answers, then the last one again and again, as the
    instrument repeats its newest block; None is no answer, and the end of the socket."""

    def __init__(self, channels, samples, rate, answers, port=None):
        self.channels, self.samples, self.rate, self.step = channels, samples, rate, samples // 2
        self.answers, self.requests, self.over = answers(self), set(), threading.Event()
        self.socket = bind_again(zmq.REP, port) if port else zmq.Context.instance().socket(zmq.REP)
        self.socket.setsockopt(zmq.LINGER, 0)
        self.port = port or self.socket.bind_to_random_port("tcp://127.0.0.1")
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def run(self):
        at = 0
        while not self.over.is_set():
            if self.socket.poll(20):
                self.requests.add(self.socket.recv())
                answer = self.answers[min(at, len(self.answers) - 1)]
                at += 1
                if answer is None:
                    break
                self.socket.send_multipart(answer)
        self.socket.close()

    def finish(self):
        self.over.set()
        self.thread.join(PATIENCE_S)
        assert self.requests <= {bytes(8)}, self.requests

    def block(self, truth, k, shift_ns=0, samples=None, sets=1, stamp_s=None, late_ms=0, **other):
        """truth[channel][k ...]; late_ms: the stamp's time after the first sample's."""
        n = samples or self.samples
        of = dict(dx=4.8, dt=1000 / self.rate, third=1.0, x=0.0, t=-late_ms, z=0.0, channels=(0, len(truth) - 1),
                  times=(0, n - 1), thirds=(0, 0), width=4)
        assert set(other) <= set(of), other
        of.update(other)
        utc_s = (BASE_NS + k * SECOND / self.rate + shift_ns) / SECOND + late_ms / 1000
        return [struct.pack("<id", sets, utc_s if stamp_s is None else stamp_s),
                struct.pack("<6d7i", of["dx"], of["dt"], of["third"], of["x"], of["t"], of["z"], *of["channels"], *of["times"],
                            *of["thirds"], of["width"]), truth[:, k:k + n].T.astype("<f4").tobytes()]

    def blocks(self, truth, begin, end, **how):
        """All whole blocks of truth[begin:end], as (k, answer)."""
        n = how.get("samples") or self.samples
        return [(k, self.block(truth, k, **how)) for k in range(begin, end - n + 1, n // 2)]


def halves(samples, *begins):
    """What blocks bring that begin there: the middle half of each."""
    return [k for begin in begins for k in range(begin + samples // 4, begin + samples // 4 + samples // 2)]


def try_febus(folder):
    """Some channels of many; a stamp in the middle of the block, a zone of the fibre, blocks that come several times, a block
    that is missing; blocks get longer than a piece, and one of these is spoilt in its last piece. The first block of a form is
    only compared."""
    rate, channels, n = 5000, 40, 2400
    truth = waves(channels, n, most=30000)
    for choice, taken, samples, how in (("", range(40), 40, {}), ("/0-39", range(40), 50, dict(late_ms=5)),
                                        ("/3-38:5", range(3, 39, 5), 42, dict(late_ms=8.4, width=0)),
                                        ("/39-39", [39], 4, dict(channels=(100, 139))),
                                        ("/10-19", range(10, 20), 40, dict(x=-3.5, third=77.0))):
        sent = []

        def answers(das):
            first = das.blocks(truth, 0, 1000, **how)
            second = das.blocks(truth, 1000, n, samples=2 * samples + 2, **how)
            sent.extend(halves(samples, *[k for k, _ in first[1:10] + first[11:]]))
            sent.extend(halves(2 * samples + 2, *[k for k, _ in second[1:]]))
            k, (head, about, data) = second[5]
            at = 4 * channels * ((2 * samples + 2) // 4 + samples)  # the last sample that is taken
            second[5] = k, [head, about, data[:at] + channels * struct.pack("<f", float("nan")) + data[at + 4 * channels:]]
            sent.remove(halves(2 * samples + 2, k)[-1])
            return [part for k, part in first[:10] + first[11:] + second for _ in range(1 + (k % 3 == 0))]

        das = Febus(channels, samples, rate, answers)
        ear = Ear(folder, f"febus://127.0.0.1:{das.port}{choice}")
        ear.listen(lambda ear: ear.counts().get(0, 0) == len(sent))
        ear.end(number=signal.SIGTERM)
        das.finish()
        expect(ear, truth[list(taken)], rate, {c: sent for c in range(len(taken))})
        said = ear.said()
        assert f"{len(taken)} channels of 40" in said and "1 had another rate or form" in said, said
        assert said.count("so far") == 0 and "off the end" not in said and "left out: " not in said, said


def try_febus_lies(folder):
    """One lie each between good blocks: all good blocks arrive, also one whose time a lie had before."""
    rate, channels, n, samples = 1000, 7, 4000, 40
    truth = waves(channels, n)
    nan, inf, most = float("nan"), float("inf"), 2**31 - 1
    kinds, good = [], []

    def answers(das):
        now = 2000
        next_k = now + das.step
        false = lambda k=next_k, **how: das.block(truth + 3, k, **how)
        head, about, data = false()
        spoilt = lambda value, at: [head, about, data[:at] + struct.pack("<f", value) + data[at + 4:]]
        middle = 4 * channels * samples // 2
        unreadable = [
            [b""], [b"", b"", b""], [head], [head, about], [head, about, data, b""], [head, about, data, data, data],
            [head, about, b"", data], [about, head, data], [data, about, head], [os.urandom(12), os.urandom(76), os.urandom(999)],
            [b"error"], [head[:-1], about, data], [head + b"0", about, data], [head, about[:64], data], [head, about[:-1], data],
            [head, about + b"0", data], [head, about, data[:-1]], [head, about, data[:-4]], [head, about, data + b"0000"],
            [head, about, data[:len(data) // 2]], [head, about, 2 * data], false(sets=4), false(sets=4)[:2], false(sets=0),
            false(sets=-1), false(sets=most), spoilt(nan, middle), spoilt(inf, middle), spoilt(-inf, middle + 4),
            *[false(dx=dx) for dx in (0, -4.8, nan, inf, 1e300, 1e-300)],
            *[false(dt=dt) for dt in (0, -1, nan, inf, -inf, 1e300, 1e-300, 1e6, 1e5)],
            *[false(x=x) for x in (nan, inf, -1e300)], *[false(t=t) for t in (1, -41, nan, inf, -inf, 1e300, -1e300)],
            *[false(channels=c) for c in ((1, 0), (-1, 5), (0, most), (-most - 1, most), (most, -most - 1), (0, 5), (0, 7))],
            *[false(times=t) for t in ((1, 40), (0, 38), (0, 40), (0, 0), (0, -1), (0, most), (-most - 1, most), (0, 41), (0, 1))],
            *[false(channels=(0, 4194303), times=(0, 16777215)), false(channels=(0, most - 1), times=(0, most - 2))],
            *[false(thirds=z) for z in ((0, 1), (1, 0), (-most - 1, most))], *[false(width=w) for w in (8, 2, -4, most)],
            *[false(stamp_s=t) for t in (-1, -1e-9, nan, inf, -inf, 1e300, 4.0000001e9, 1.8e308)]]
        another = [das.block(truth[:6], next_k), das.block(np.vstack([truth, truth[:1]]), next_k), false(dt=2.0), false(dt=1.01),
                   false(dx=4.9), false(x=10.0), false(channels=(5, 11)), *[false(samples=n) for n in (60, 38, 80)]]
        jumps = [false(shift_ns=round(by * SECOND)) for by in (3600, -3600, 10**8, 3600.007, -3600.007, 0.007, -0.011)]
        late = [false(k=now - 200), false(k=now - 100)]
        kinds.extend([len(unreadable), len(another), len(jumps), len(late)])
        blocks = das.blocks(truth, 0, n)
        good.extend(k for k, _ in blocks[1:])
        out = []
        for k, block in blocks:
            out.append(block)
            if k == now:
                out += unreadable + another
                for lie in jumps + late:
                    out.append(lie)
        return out

    das = Febus(channels, samples, rate, answers)
    ear = Ear(folder, f"febus://127.0.0.1:{das.port}")
    ear.listen(lambda ear: ear.counts().get(0, 0) == len(good) * das.step)
    ear.end(number=signal.SIGTERM)
    das.finish()
    expect(ear, truth, rate, {c: halves(samples, *good) for c in range(channels)})
    for count, words in zip(kinds, ("could not be read", "had another rate or form", "had a time far", "came too late")):
        assert f"{count} {words}" in ear.said(), (count, words, ear.said())


def try_febus_begin(folder):
    """It begins with lies, and with blocks that do not overlap by half: none is sent, and each is told with what is read."""
    rate, channels, samples = 1000, 5, 40
    truth = waves(channels, 3000)

    def answers(das):
        apart = [das.block(truth, k) for k in range(0, 400, 40)]
        tight = [das.block(truth, k) for k in range(400, 600, 38)]
        return [[b"error"], das.block(truth, 7, samples=30), das.block(truth, 0, sets=4)[:2], *apart, *tight,
                das.block(truth[:3], 599), *[block for _, block in das.blocks(truth, 1001, 3000)]]

    das = Febus(channels, samples, rate, answers)
    ear = Ear(folder, f"febus://127.0.0.1:{das.port}/1-3")
    sent = halves(samples, *[k for k, _ in das.blocks(truth, 1001, 3000)][1:])
    ear.listen(lambda ear: ear.counts().get(0, 0) == len(sent))
    ear.end(number=signal.SIGTERM)
    das.finish()
    expect(ear, truth[1:4], rate, {c: sent for c in range(3)})
    for words in ("its head has 5 bytes; 12 are read", "begins +40.0 samples after the one before", "overlap by half (20)",
                  "2 could not be read", "18 had another rate or form"):
        assert words in ear.said(), (words, ear.said())


def try_febus_jitter(folder):
    """Stamps that are off by up to a twentieth of a block are told, and nothing is lost or moved."""
    rate, channels, n, samples = 1000, 3, 3000, 200
    truth = waves(channels, n)
    off = {500: 8, 900: -9, 1500: 5, 1600: 5}  # in samples

    def answers(das):
        return [das.block(truth, k, shift_ns=off.get(k, 0) * SECOND // rate) for k, _ in das.blocks(truth, 0, n)]

    das = Febus(channels, samples, rate, answers)
    ear = Ear(folder, f"febus://127.0.0.1:{das.port}")
    begins = [k for k, _ in das.blocks(truth, 0, n)][1:]
    ear.listen(lambda ear: ear.counts().get(0, 0) == len(begins) * das.step)
    ear.end(number=signal.SIGTERM)
    das.finish()
    ((_, data),) = ear.runs()
    assert np.array_equal(data, truth[:, halves(samples, *begins)].T)
    first = halves(samples, *begins)[0]
    for *_, index, utc_ns, _, data in ear.frames:
        k = first + index - ear.frames[0].index
        block = (k - samples // 4) // das.step * das.step
        assert abs(utc_ns - BASE_NS - (k + off.get(block, 0)) * SECOND // rate) < 1000, (k, utc_ns)
    assert "its time is +8.00 samples off" in ear.said() and "6 were off by a sample or more" in ear.said(), ear.said()


def try_febus_decimated(folder):
    """One sample of ten, with its time: a slow tone is as it was, and a fast one is gone."""
    rate, channels, n, by, samples = 1000, 5, 5000, 10, 74
    t, phase = np.arange(n) / rate, np.arange(channels)[:, None]
    slow = 1000 * np.cos(2 * np.pi * 31 * t + phase)
    truth = slow + 1000 * np.cos(2 * np.pi * 271 * t)
    das = Febus(channels, samples, rate, lambda das: [block for _, block in das.blocks(truth, 0, n)])
    ear = Ear(folder, f"febus://127.0.0.1:{das.port}/0-4:2", "--decimate", by)
    ear.listen(lambda ear: ear.counts().get(0, 0) * by > n - 6 * samples)
    ear.end(number=signal.SIGTERM)
    das.finish()
    for _, _, index, utc_ns, fs_hz, data in ear.frames:
        k = (utc_ns - BASE_NS) * rate / SECOND
        assert fs_hz == rate / by and abs(k - round(k)) < 0.01, (fs_hz, k)
        assert np.allclose(data, slow[::2, round(k) + by * np.arange(len(data))].T, atol=1.5), k
    assert len(ear.runs()) == 1


def try_febus_again(folder):
    """Something else listens there first; then the instrument stops to answer, and is started again an hour of its time
    later: a gap. Then its clock is set back: a new stream."""
    rate, channels, n, samples = 1000, 5, 3000, 200
    truth = waves(channels, n)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(PATIENCE_S)
        port = listener.getsockname()[1]
        ear = Ear(folder, f"febus://127.0.0.1:{port}")
        with listener.accept()[0] as connection:
            connection.sendall(b"HTTP/1.0 400 Bad Request\r\n\r\n" + os.urandom(200))
    turn = lambda das, shift_s: [das.block(truth, k, shift_s * SECOND) for k, _ in das.blocks(truth, 0, n)]
    das = Febus(channels, samples, rate, lambda das: [*turn(das, 0), None], port)
    das.thread.join(PATIENCE_S)
    das.finish()
    das = Febus(channels, samples, rate, lambda das: [*turn(das, 3600), *turn(das, -3600)], port)
    blocks = (n - samples) // das.step + 1
    ear.listen(lambda ear: ear.counts().get(0, 0) == 3 * (blocks - 1) * das.step)
    ear.end(number=signal.SIGTERM)
    das.finish()
    first, found = ear.frames[0][0], {}
    for epoch, _, index, utc_ns, _, data in ear.frames:
        k, shift_s = next((k, s) for s in (0, 3600, -3600) for k in [round((utc_ns - BASE_NS - s * SECOND) * rate / SECOND)]
                          if 0 <= k < n)
        assert np.array_equal(truth[:, k:k + len(data)].T, data), (k, shift_s)
        begin = das.step + samples // 4
        assert (epoch, index - k) == {0: (first, -begin), 3600: (first, 3600 * rate - begin),
                                      -3600: (first + 1, -begin)}[shift_s], (epoch, index, k, shift_s)
        found.setdefault(shift_s, []).extend(range(k, k + len(data)))
    wanted = halves(samples, *range(das.step, blocks * das.step, das.step))
    assert all(found[shift_s] == wanted for shift_s in (0, 3600, -3600)), found
    assert "2 had a time far" in ear.said() and "it has not answered for" in ear.said(), ear.said()


def try_febus_mistakes(folder):
    truth = waves(5, 100)
    das = Febus(5, 8, 100, lambda das: [block for _, block in das.blocks(truth, 0, 100)])
    for words, where in ((["is not of the form", "febus://HOST:PORT[/FIRST-LAST[:STEP]]"], "febus://h"),
                         (["is not of the form"], "febus://h:1/5"), (["is not of the form"], "febus://h:1/5-6:0"),
                         (["channels 0 to 4"], f"febus://127.0.0.1:{das.port}/0-5")):
        done = subprocess.run([binaries / "sonar-feed", where, "--endpoint", f"ipc://{folder}/in", "--array-id", "1"],
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=PATIENCE_S)
        assert done.returncode == 2 and all(word in done.stderr for word in words), (words, done)
    das.finish()


for name in sys.argv[2:] or [name[4:] for name in dir() if name.startswith("try_")]:
    with tempfile.TemporaryDirectory(prefix="sonar-feed-") as place:
        globals()[f"try_{name}"](pathlib.Path(place))
        print(f"{name}: as it should be", flush=True)
