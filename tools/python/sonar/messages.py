# SPDX-License-Identifier: GPL-3.0-or-later
"""What sonard publishes and records, decoded (docs/reading.md has the fields). Needs numpy alone; spectra() h5py."""
import json

import numpy as np

SCHEMA = "sonard/1"


# A row of Message.tracks. Words are empty and numbers NaN where the message has null; `contact` is -1.
TRACK = np.dtype([("number", "u8"), ("state", "U9"), ("existence", "f8"), ("bearing_deg", "f8"),
                  ("bearing_sigma_deg", "f8"), ("rate_deg_per_min", "f8"), ("rate_sigma_deg_per_min", "f8"),
                  ("correlation", "f8"), ("side", "U9"), ("probability", "f8"), ("az_deg", "f8"), ("snr_db", "f8"),
                  ("age_s", "f8"), ("unheard_s", "f8"), ("contact", "i8"), ("rests_on", "U16")])


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

    @property
    def db_unit(self):
        """The unit of `db`: "dB re 1 uPa^2"; of a ratio, "dB"."""
        return "dB" if self.unit == "1" else f"dB re 1 {self.unit}"

    @property
    def tracks(self):
        """The tracks of a message of `tracks` (docs/tracks.md) as a structured array, which pandas.DataFrame() takes:
        a row for each bearing, so that a track of a line has two until a turn decides. `rests_on` is "cbf+mvdr"."""
        if "tracks" not in self.header:
            raise AttributeError(f"a message of {self.topic} has no tracks: those of the topic tracks have")
        rows = [{**track, **bearing} for track in self.header["tracks"] for bearing in track["bearings"]]
        return np.array([tuple(_cell(row.get(name), TRACK[name].kind) for name in TRACK.names) for row in rows], TRACK)

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


def _cell(value, kind):
    if value is None:
        return {"f": np.nan, "i": -1, "u": 0, "U": ""}[kind]
    return "+".join(value) if isinstance(value, list) else value


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
