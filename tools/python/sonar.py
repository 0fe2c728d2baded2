# SPDX-License-Identifier: GPL-3.0-or-later
"""Reads what sonard publishes: one module over pyzmq and numpy (docs/reading.md has the fields).

    import sonar
    for s in sonar.subscribe("tcp://127.0.0.1:5556", "mvdr.azimuth"):
        print(s.utc, s.axis("azimuth")[s.data.argmax()], s.db.max(), s.unit)
"""

import json
import re

import numpy as np
import zmq

SCHEMA = "sonard/1"


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
            raise ProtocolError(f"this reader knows {SCHEMA} only")
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
        """Of the window's first sample, exact to the ns; not-a-time where the digitiser knows none."""
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


def read_certificate(path):
    """The keys of a CURVE certificate, such as sonar-keys makes: public-key, secret-key, server-key."""
    with open(path, encoding="utf-8") as file:
        return dict(re.findall(r'^ {4}([a-z]+-key)\s*=\s*"([^"]{40})"', file.read(), re.M))


def connect(endpoint, *topics, key=None, high_water_mark=1000):
    """A SUB socket that is connected to a daemon; `key` is a client's secret certificate (NAME.key_secret)."""
    socket = zmq.Context.instance().socket(zmq.SUB)
    socket.rcvhwm = high_water_mark
    socket.linger = 0
    if key is not None and endpoint.startswith("tcp:"):
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
    socket.connect(endpoint)
    return socket


def subscribe(endpoint, *topics, key=None, timeout_s=None, high_water_mark=1000):
    """Yields messages for ever, or until none has come for `timeout_s`. A slow reader loses messages:
    `header["seq"]` tells."""
    socket = connect(endpoint, *topics, key=key, high_water_mark=high_water_mark)
    try:
        while timeout_s is None or socket.poll(1000 * timeout_s):
            yield Message(socket.recv_multipart())
    finally:
        socket.close()
