# SPDX-License-Identifier: GPL-3.0-or-later
"""Reads what sonard publishes: one module over pyzmq and numpy (docs/reading.md has the fields).

    import sonar
    for s in sonar.subscribe("tcp://127.0.0.1:5556", "mvdr.azimuth"):
        print(s.utc, s.axis("azimuth")[s.data.argmax()], s.db.max(), s.unit)
"""

import json
import logging
import re
import socket as sockets
import time
import urllib.parse

import numpy as np
import zmq
from zmq.utils.monitor import recv_monitor_message

SCHEMA = "sonard/1"
PATIENCE_S = 2  # in which a daemon that is there has sent its status
log = logging.getLogger("sonar")


class ProtocolError(Exception):
    """A message that is not one of this protocol, and why."""


class Message:
    """One message: `header` (dict), `data` (float32, in the header's shape), and the fields used most."""

    def __init__(self, parts):
        if len(parts) != 3:
            raise ProtocolError(f"a message has three parts, not {len(parts)}")
        try:
            self.header = json.loads(parts[1])
        except ValueError as error:
            raise ProtocolError(f"the header is not JSON: {error}") from None
        if not isinstance(self.header, dict) or self.header.get("schema") != SCHEMA:
            came = self.header.get("schema") if isinstance(self.header, dict) else None
            raise ProtocolError(f"schema {came!r}: this reader knows {SCHEMA!r} only")
        self.topic = parts[0].decode()
        values = np.frombuffer(parts[2], self.header["dtype"])
        if values.size != int(np.prod(self.header["shape"])):
            raise ProtocolError(f"{len(parts[2])} bytes for shape {self.header['shape']}")
        self.data = values.reshape(self.header["shape"])
        self.unit = self.header["unit"]
        self.window = self.header["window"]
        self.flags = self.header["flags"]

    @property
    def utc(self):
        """Of the window's first sample, exact to the ns; not-a-time if the digitiser does not know it."""
        ns = self.header["utc_ns"]
        return np.datetime64("NaT", "ns") if ns is None else np.datetime64(ns, "ns")

    @property
    def db(self):
        """The power in dB re 1 unit."""
        return 10 * np.log10(np.maximum(self.data, 1e-30))

    def axis(self, which):
        """Values of an axis, by its name or its place."""
        axes = self.header["axes"]
        i = which if isinstance(which, int) else [a["name"] for a in axes].index(which)
        if "values" in axes[i]:
            return np.array(axes[i]["values"], float)
        return axes[i]["start"] + axes[i]["step"] * np.arange(self.header["shape"][i])

    def bearings(self, angle_deg):
        """The true bearings (in the array frame without a heading) that an angle of the azimuth axis stands
        for, in the horizontal plane: one, or those right and left of a line's axis; none where there is none."""
        h = self.header
        heading = h["heading_deg"] or 0
        if h.get("resampled"):
            return [angle_deg % 360]
        if h["bearing_kind"] != "cone":
            return [(heading + angle_deg) % 360]
        if h["axis_az_deg"] is None:
            return []
        cosine = np.cos(np.radians(angle_deg)) / np.cos(np.radians(h["axis_depression_deg"] or 0))
        if abs(cosine) > 1:
            return []
        side = np.degrees(np.arccos(cosine))
        return [(heading + h["axis_az_deg"] + s * side) % 360 for s in (1, -1)]


def recording(path):
    """What sonard recorded with `record.what: raw` (docs/recording.md), or any SigMF data set of 16-bit or float
    samples: counts as [sample][channel], read from the disk as they are used, and the metadata. Where an
    annotation says `missing`, the counts of its `sonar:channels` ([first, count]) are zeros."""
    stem = str(path).removesuffix(".sigmf-meta").removesuffix(".sigmf-data")
    with open(stem + ".sigmf-meta", encoding="utf-8") as file:
        meta = json.load(file)
    dtype = {"rf32_le": "<f4", "ri16_le": "<i2", "ri32_le": "<i4"}[meta["global"]["core:datatype"]]
    channels = meta["global"].get("core:num_channels", 1)
    counts = np.memmap(stem + ".sigmf-data", dtype, "r")  # its last sample may be there in part
    return counts[:counts.size // channels * channels].reshape(-1, channels), meta


def spectra(path, group):
    """The messages of a group of spectra.h5, as sonar-process writes it (docs/recordings.md): of a topic, or of
    "lofargram", whose headers have az_deg, the direction of the row. None if there is no such group."""
    import h5py  # nothing else needs it

    with h5py.File(path) as file:
        rows = {name: data[()] for name, data in file[group].items()} if group in file else {}
    first = json.loads(rows["header"]) if rows else {}
    for i, power in enumerate(rows.get("power", ())):
        own = {name: rows[name][i].item() for name in ("utc_ns", "sample_index", "window", "heading_deg", "az_deg")
               if name in rows}
        own["utc_ns"] = own["utc_ns"] or None
        own["heading_deg"] = None if np.isnan(own["heading_deg"]) else own["heading_deg"]
        flags = rows["flags"][i].decode()
        header = {**first, **own, "flags": flags.split(",") if flags else []}
        yield Message([first["topic"].encode(), json.dumps(header), power.tobytes()])


def read_certificate(path):
    """The keys of a CURVE certificate, such as sonar-keys makes: public-key, secret-key, server-key."""
    with open(path, encoding="utf-8") as file:
        return dict(re.findall(r'^ {4}([a-z]+-key)\s*=\s*"([^"]{40})"', file.read(), re.M))


class Refused(ConnectionError):
    """The daemon will not have this reader, which need not wait."""


class Reader(zmq.Socket):
    """A SUB socket that knows why nothing comes, of which libzmq says nothing by itself. `why` is what to say after
    the endpoint, in the words of src/net/client.c; empty where nothing is known to be wrong."""
    key = refused = joined = False
    why = ""
    events = None

    def watch(self, key):
        """Before it connects."""
        self.key = key
        self.events = self.get_monitor_socket(zmq.EVENT_ALL)

    def look(self):
        """Takes what has happened; `why`. Waits for a second at most."""
        while not self.refused and self.events.poll(0):
            event = recv_monitor_message(self.events)
            self._take(event["event"], event["value"], event["endpoint"].decode())
        return self.why

    def _take(self, event, value, endpoint):
        if event == zmq.EVENT_CLOSED:
            self.why = "does not answer: nothing listens there"
        elif event == zmq.EVENT_HANDSHAKE_SUCCEEDED:
            self.joined, self.why = True, ""
        elif event == zmq.EVENT_HANDSHAKE_FAILED_AUTH and self.key:
            self._refuse("does not allow this key: its public certificate (NAME.key) has to be in "
                         "security.allow_readers there")
        elif event == zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL:
            self._refuse("speaks CURVE and this reader does not, or vice versa: key decides")
        elif event == zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL and self.key:
            self.why = "hangs up in the handshake: this key connects too often, or the server-key is not its own"
        elif event == zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL and greets_with_curve(endpoint):
            self._refuse("speaks CURVE and this reader does not: key is needed")
        elif event == zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL:
            self.why = ("hangs up in the handshake: this user or address has too many connections, or makes them "
                        "too often")

    def _refuse(self, why):
        self.refused, self.why = True, why

    def close(self, linger=None):
        if self.events is not None and not self.closed:
            self.disable_monitor()
            self.events.close(0)
        super().close(linger)


def greets_with_curve(endpoint):
    """Whether a server names CURVE (ZMTP 3): it often hangs up before a plain reader has read that."""
    place, greeting = urllib.parse.urlsplit(endpoint), b""
    if place.scheme != "tcp":
        return False
    try:
        with sockets.create_connection((place.hostname, place.port), 1) as server:
            server.sendall(b"\xff" + bytes(8) + b"\x7f\x03")
            while len(greeting) < 32 and (more := server.recv(64)):
                greeting += more
    except OSError:
        return False
    return greeting[12:32].rstrip(b"\0") == b"CURVE"


def connect(endpoint, *topics, key=None, high_water_mark=1000):
    """A Reader that is connected to a daemon; `key` is a client's secret certificate (NAME.key_secret)."""
    socket = Reader(zmq.Context.instance(), zmq.SUB)
    socket.rcvhwm = high_water_mark
    socket.linger = 0
    encrypted = key is not None and endpoint.startswith("tcp:")
    if encrypted:
        keys = read_certificate(key)
        missing = {"public-key", "secret-key", "server-key"} - keys.keys()
        if missing:
            socket.close()
            raise ValueError(f"{key}: there is no {', '.join(sorted(missing))}; sonar-keys client makes such files")
        socket.curve_serverkey = keys["server-key"].encode()
        socket.curve_publickey = keys["public-key"].encode()
        socket.curve_secretkey = keys["secret-key"].encode()
    for topic in topics:
        socket.subscribe(topic)
    socket.watch(encrypted)
    socket.connect(endpoint)
    return socket


def await_message(socket, endpoint, timeout_s, told):
    """True once a message is there, False after `timeout_s` without one. Logs each reason for waiting that is not
    in `told`; raises Refused where waiting is of no use."""
    began = time.monotonic()
    while True:
        waited_s = time.monotonic() - began
        left_s = 1 if timeout_s is None else timeout_s - waited_s
        if socket.poll(max(0, 1000 * min(left_s, 0.25))):
            return True
        why = socket.look()
        if socket.refused:
            raise Refused(f"{endpoint} {why}")
        if waited_s > PATIENCE_S and why and why not in told:
            told.add(why)
            log.warning("%s %s; waiting", endpoint, why)
        if left_s <= 0:
            return False


def subscribe(endpoint, *topics, key=None, timeout_s=None, high_water_mark=1000):
    """Yields messages for ever, or until none has come for `timeout_s`. Logs why it waits (logger "sonar"), and
    raises Refused if the daemon does not admit it. A slow reader loses messages; gaps in `header["seq"]` show this."""
    socket = connect(endpoint, *topics, key=key, high_water_mark=high_water_mark)
    told = set()
    try:
        while await_message(socket, endpoint, timeout_s, told):
            yield Message(socket.recv_multipart())
            told.clear()
    finally:
        socket.close()
