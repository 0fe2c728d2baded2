# SPDX-License-Identifier: GPL-3.0-or-later
"""A recording in one call: WAV files and SigMF data sets. sonar-process reads more (docs/recordings.md)."""
import logging
import os
import pathlib
import re
import struct

import numpy as np

from .beamform import utc_ns
from .messages import recording
from .record import Record
from .session import Session

BLOCK = 1 << 16  # samples that are converted at a time
GAP_LEAST_S = 1.5  # dates may be to the second only: below this files continue each other
log = logging.getLogger("sonar")


class Results(dict):
    """A Record for each topic that came, by its name."""

    @property
    def contacts(self):
        """The detections of all windows as a list of dicts, each with the `utc` and `time_s` of its window."""
        return self._listed("detections", ())

    @property
    def tracks(self):
        """The tracks of all windows (docs/tracks.md), likewise, each also with the `bearing_reference` of its window:
        the objects of sonar-process's tracks.json. Message.tracks has those of one window as an array."""
        return self._listed("tracks", ("bearing_reference",))

    def _listed(self, topic, fields):
        found = self.get(topic)
        windows = zip(found.messages, found.time_s) if found else ()
        return [{"utc": m.utc, "time_s": time_s, "window": m.window, **{name: m.header[name] for name in fields}, **row}
                for m, time_s in windows for row in m.header[topic]]


def process(file, config, *, topics=("cbf.azimuth", "mvdr.azimuth", "detections", "tracks"), utc=None,
            side_by_side=False):
    """Results of a recording: those that sonar-process and sonard have of it, number for number.

    file    WAV or SigMF; its channels are those of the configuration. Or a list of such files: they continue each
            other, and where their dates lie more than 1.5 s apart there is a gap
    config  path of a configuration as for sonard, or a dict with the same content
    topics  names as in docs/reading.md; None: those that every window brings
    utc     of the first sample; default: what a SigMF data set or the file's name says, else unknown. The date in a
            WAV file's chunk `bext`, which sonar-process knows, is not read
    side_by_side  the files are of the same time, and have the channels one after the other"""
    files = [file] if isinstance(file, (str, os.PathLike)) else list(file)
    tapes = _join([_Tape(files, utc)] if side_by_side else [_Tape([one], utc) for one in files], utc)
    found = {}

    def take():
        for message in session:
            found.setdefault(message.topic, []).append(message)

    with Session(config, topics) as session:
        for tape in tapes:
            if tape.gap:
                session.skip(tape.gap, tape.channels, tape.fs)
            for at in range(0, tape.length, BLOCK):
                session.feed(tape.read(at), tape.fs, 0 if at else tape.start_ns)
                take()
        session.finish()
        take()
    if not found:
        raise ValueError(f"{files[0]}: no message came: {sum(tape.length for tape in tapes)} samples are shorter than a "
                         "window (dft.length)")
    return Results((topic, Record(messages)) for topic, messages in found.items())


class _Tape:
    """A file, or several side by side. start_ns: UTC that its first sample gets; 0: it follows on those before, or is not
    known. gap: samples that are missing before it."""

    def __init__(self, files, utc):
        opened = [_open(pathlib.Path(file)) for file in files]
        self.name, self.samples, self.fs = files[0], [samples for samples, _, _ in opened], opened[0][1]
        self.utc_ns = next((time_ns for _, _, time_ns in opened if time_ns), 0)
        self.channels, self.length = sum(s.shape[1] for s in self.samples), min(map(len, self.samples))
        self.start_ns, self.gap = self.utc_ns, 0
        for file, (samples, fs, time_ns) in zip(files, opened):
            if fs != self.fs:
                raise ValueError(f"{file}: {fs:g} Hz, but {self.name} has {self.fs:g} Hz")
            if utc is None and time_ns and abs(time_ns - self.utc_ns) * 1e-9 * fs >= 1:
                raise ValueError(f"{file}: its date is another one than that of {self.name}: side by side, samples must have "
                                 "the same time; utc=... says that they do")
            if len(samples) != self.length:
                log.warning("%s has %d samples, of which %d are taken", file, len(samples), self.length)

    def end_ns(self):
        return self.utc_ns and self.utc_ns + round(self.length / self.fs * 1e9)

    def read(self, at):
        parts = [counts(samples[at:min(at + BLOCK, self.length)]) for samples in self.samples]
        alike = len({part.dtype for part in parts}) == 1
        return parts[0] if len(parts) == 1 else np.hstack([part if alike else part.astype("f4") for part in parts])


def _join(tapes, utc):
    """Tapes that follow on each other, as sonar-process places them (tools/replay/tape.c)."""
    if not tapes:
        raise ValueError("no file was given")
    first, samples, start_ns = tapes[0], 0, None if utc is None else utc_ns(utc)
    for before, tape in zip([None, *tapes], tapes):
        if before:
            if _counted(tape.name):
                raise ValueError(f"{tape.name}: it counts its samples (core:global_index); sonar-process joins such recordings")
            if (tape.channels, tape.fs) != (first.channels, first.fs):
                raise ValueError(f"{tape.name}: {tape.channels} channels at {tape.fs:g} Hz, but {first.name} has "
                                 f"{first.channels} at {first.fs:g} Hz")
            known = tape.utc_ns and before.utc_ns and start_ns != 0
            gap_s = (tape.utc_ns - before.end_ns()) * 1e-9 if known else 0
            if gap_s < -GAP_LEAST_S:
                raise ValueError(f"{tape.name}: begins {-gap_s:.1f} s before {before.name} ends: are they in order?")
            if gap_s > GAP_LEAST_S:
                tape.gap = round(gap_s * tape.fs)
                log.warning("%s begins %.1f s after %s ends: a gap", tape.name, gap_s, before.name)
        if start_ns == 0:
            tape.start_ns = 0
        elif start_ns is not None:
            since_ns = tape.utc_ns - first.utc_ns if tape.utc_ns and first.utc_ns else round(samples / tape.fs * 1e9)
            tape.start_ns = start_ns + since_ns
        samples += tape.length
    return tapes


def read_wav(file):
    """Samples as [sample][channel] and the sampling rate. Integers are counts. Read from the disk as they are used,
    except 24-bit samples, which become int32."""
    samples, fs = _wav(pathlib.Path(file))
    return counts(samples), fs


def counts(samples):
    """What the library takes: 24-bit samples, [...][3 bytes], as int32."""
    if samples.ndim == 2:
        return samples
    wide = np.zeros((*samples.shape[:2], 4), np.uint8)
    wide[..., 1:] = samples
    return wide.view("<i4")[..., 0] >> 8


def _open(file):
    if file.suffix in (".sigmf-meta", ".sigmf-data"):
        return _sigmf(file)
    return *_wav(file), _named_utc_ns(file.name)


def _sigmf(file):
    samples, meta = recording(file)
    if len(meta["captures"]) > 1 or meta.get("annotations"):
        raise ValueError(f"{file}: it has gaps, which sonar-process can process")
    date = meta["captures"][0].get("core:datetime") if meta["captures"] else None
    return samples, meta["global"]["core:sample_rate"], utc_ns(date)


def _counted(file):
    file = pathlib.Path(file)
    captures = recording(file)[1]["captures"] if file.suffix in (".sigmf-meta", ".sigmf-data") else []
    return any(capture.get("core:global_index") for capture in captures)


# ---- WAV


def _chunks(file):
    """Of a RIFF file: name, place of the content, size. A size beyond the end is that of a file that is not complete."""
    with open(file, "rb") as data:
        head = data.read(12)
        if head[:4] != b"RIFF" or head[8:] != b"WAVE":
            raise ValueError(f"{file}: no WAV file; sonar-process reads RF64, FLAC, HDF5 and others")
        end = file.stat().st_size
        at = 12
        while at + 8 <= end:
            data.seek(at)
            name, size = struct.unpack("<4sI", data.read(8))
            yield name, at + 8, min(size, end - at - 8)
            at += 8 + size + size % 2


TYPES = {(1, 16): "<i2", (1, 24): "24", (1, 32): "<i4", (3, 32): "<f4", (3, 64): "<f8"}


def _wav(file):
    found = {name: (at, size) for name, at, size in _chunks(file) if name in (b"fmt ", b"data")}
    if len(found) < 2:
        raise ValueError(f"{file}: no samples in it")
    with open(file, "rb") as data:
        data.seek(found[b"fmt "][0])
        form = data.read(found[b"fmt "][1])
    kind, channels, fs, _, _, bits = struct.unpack_from("<HHIIHH", form)
    if kind == 0xFFFE and len(form) >= 26:  # the extensible form's own kind
        (kind,) = struct.unpack_from("<H", form, 24)
    if (kind, bits) not in TYPES or not channels:
        raise ValueError(f"{file}: samples of kind {kind} with {bits} bits; 16, 24 and 32 bits and floats are "
                         "read here, others by sonar-process")
    at, size = found[b"data"]
    rows = size // (channels * bits // 8)
    if not rows:
        raise ValueError(f"{file}: no samples in it")
    if bits == 24:
        return np.memmap(file, np.uint8, "r", at, (rows, channels, 3)), fs
    return np.memmap(file, TYPES[kind, bits], "r", at, (rows, channels)), fs


def _named_utc_ns(name):
    """Of a name such as ships_20260131T120000Z.wav, as sonar-process understands it; 0: there is none."""
    for form, century in ((r"(?<!\d)(\d{4})-?(\d\d)-?(\d\d)[T_-]?(\d\d)-?(\d\d)-?(\d\d)(?!\d)", ""),
                          (r"\.(\d\d)(\d\d)(\d\d)(\d\d)(\d\d)(\d\d)\.", "20")):
        if part := re.search(form, name):
            utc = "{}-{}-{}T{}:{}:{}".format(century + part[1], *part.groups()[1:])
            log.info("%s: its name dates %s, taken as UTC", name, utc)
            try:
                return utc_ns(utc)
            except ValueError:
                return 0
    return 0
