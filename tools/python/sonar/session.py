# SPDX-License-Identifier: GPL-3.0-or-later
"""libsonar.so by ctypes: include/sonar/session.h has the contract of each function."""
import ctypes
import json
import logging
import os
import pathlib

import numpy as np

from .messages import Message

SONAME = "libsonar.so.0"
TYPES = {"int16": 1, "int32": 3, "float32": 4}  # SONAR_SESSION_*
EINVAL = 1
AT_ONCE = 1 << 22  # numbers that are converted at a time; between them Ctrl-C is seen
log = logging.getLogger("sonar")


class Error(RuntimeError):
    """The library could not do its work, and why."""


class _Samples(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("type", ctypes.c_int), ("channels", ctypes.c_uint32),
                ("samples", ctypes.c_uint64), ("channel_stride", ctypes.c_ssize_t), ("sample_stride", ctypes.c_ssize_t),
                ("fs_hz", ctypes.c_double), ("utc_ns", ctypes.c_int64)]


class _Message(ctypes.Structure):
    _fields_ = [("topic", ctypes.c_char_p), ("header", ctypes.c_void_p), ("header_bytes", ctypes.c_size_t),
                ("data", ctypes.c_void_p), ("data_bytes", ctypes.c_size_t)]


_Log = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_char_p)


class _Spec(ctypes.Structure):
    _fields_ = [("topics", ctypes.c_char_p), ("log", _Log), ("log_ctx", ctypes.c_void_p)]


@_Log
def _tell(_, where, text):
    log.warning("%s: %s", where.decode(errors="replace"), text.decode(errors="replace"))


def _places():
    """Beside this file (a wheel), in the build of this checkout, in the prefix that this file is installed in, and
    where the loader finds it."""
    here = pathlib.Path(__file__).resolve().parent
    named = os.environ.get("SONAR_LIBRARY")
    beside = [here, *(here.parents[2] / folder for folder in ("build/release/lib", "../lib"))]
    return [named] if named else [*(str(folder / SONAME) for folder in beside if (folder / SONAME).exists()), SONAME]


def _load():
    try:
        found = ctypes.CDLL(_places()[0])
    except OSError as error:
        raise ImportError(f"{error}: install libsonar0, or build sonard here; SONAR_LIBRARY names another "
                          "place") from None
    found.sonar_session_version.restype = ctypes.c_char_p
    found.sonar_session_take.restype = ctypes.c_bool
    found.sonar_session_close.restype = None
    found.sonar_session_take.argtypes = [ctypes.c_void_p, ctypes.POINTER(_Message)]
    found.sonar_session_close.argtypes = [ctypes.c_void_p]
    text = [ctypes.c_char_p, ctypes.c_size_t]
    begin = [ctypes.POINTER(_Spec), ctypes.POINTER(ctypes.c_void_p), *text]
    found.sonar_session_load.argtypes = [ctypes.c_char_p, *begin]
    found.sonar_session_parse.argtypes = [ctypes.c_char_p, ctypes.c_char_p, ctypes.c_size_t, *begin]
    found.sonar_session_feed.argtypes = [ctypes.c_void_p, ctypes.POINTER(_Samples), *text]
    found.sonar_session_finish.argtypes = [ctypes.c_void_p, *text]
    return found


_loaded = None


def _library():
    global _loaded
    _loaded = _loaded or _load()
    return _loaded


def library_version():
    """Of libsonar.so."""
    return _library().sonar_session_version().decode()


class Session:
    """A configuration that samples are fed to, and the messages that come of them, the same as sonard's.

        with sonar.Session("array.yaml", ["cbf.azimuth"]) as session:
            session.feed(samples, fs)              # [sample][channel], as often as there are samples
            session.finish()
            for message in session:                # sonar.Message

    `config` is the path of a file as for sonard, or a dict with the same content. ValueError: the configuration or
    the samples do not fit; Error: all else. Warnings go to the logger "sonar"."""

    def __init__(self, config, topics=None):
        self._session = ctypes.c_void_p()
        self._error = ctypes.create_string_buffer(8192)
        spec = _Spec(",".join(topics).encode() if topics else None, _tell, None)
        end = ctypes.byref(spec), ctypes.byref(self._session), self._error, len(self._error)
        if isinstance(config, dict):
            text = json.dumps(config, default=lambda value: value.tolist()).encode()  # numpy's numbers and arrays
            self._check(_library().sonar_session_parse(b"configuration", text, len(text), *end))
        else:
            self._check(_library().sonar_session_load(os.fsencode(config), *end))

    def _check(self, code):
        if code:
            text = self._error.value.decode(errors="replace").strip()
            raise ValueError(text) if code == EINVAL else Error(text)

    def _open(self):
        if not self._session:
            raise Error("the session is closed")
        return self._session

    def feed(self, samples, fs, utc_ns=0):
        """Samples as [sample][channel], of any strides; int16, int32 and float32 are taken as they are, others as
        float32. utc_ns: of the first sample; 0: they follow on those before."""
        samples = np.asarray(samples)
        if samples.ndim != 2:
            raise ValueError(f"samples have the shape {samples.shape}; [sample][channel] is wanted")
        native = samples.dtype.newbyteorder("=")
        kind = native if native.name in TYPES else np.dtype(np.float32)
        rows = max(AT_ONCE // max(samples.shape[1], 1), 1)
        for at in range(0, len(samples), rows):
            some = samples[at:at + rows].astype(kind, copy=False)
            self._feed(_Samples(some.ctypes.data, TYPES[kind.name], some.shape[1], some.shape[0], some.strides[1],
                                some.strides[0], fs, 0 if at else utc_ns))

    def skip(self, samples, channels, fs):
        """A gap: all channels lack this number of samples."""
        self._feed(_Samples(None, TYPES["float32"], channels, samples, 0, 0, fs, 0))

    def _feed(self, block):
        self._check(_library().sonar_session_feed(self._open(), ctypes.byref(block), self._error, len(self._error)))

    def finish(self):
        """No samples follow; waits until all messages can be taken."""
        self._check(_library().sonar_session_finish(self._open(), self._error, len(self._error)))

    def take(self):
        """The oldest message that was not taken: topic, header and array as bytes; None: there is none now."""
        m = _Message()
        if not _library().sonar_session_take(self._open(), ctypes.byref(m)):
            return None
        return m.topic, ctypes.string_at(m.header, m.header_bytes), ctypes.string_at(m.data, m.data_bytes)

    def __iter__(self):
        while (parts := self.take()) is not None:
            yield Message(parts)

    def close(self):
        session, self._session = self._session, None
        if session:
            _library().sonar_session_close(session)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def __del__(self):
        if getattr(self, "_session", None):
            self.close()
