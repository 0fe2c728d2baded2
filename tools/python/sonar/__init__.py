# SPDX-License-Identifier: GPL-3.0-or-later
"""sonard for Python: its beamforming as functions, its messages, recordings and results.

    import sonar
    record = sonar.beamform(samples, positions, fs, band_hz=(400, 950))     # arrays
    results = sonar.process("dive.wav", "array.yaml")                       # a recording
    for s in sonar.listen("tcp://127.0.0.1:5556", "mvdr.azimuth"):          # a running sonard
        print(s.utc, s.axis("azimuth")[s.data.argmax()], s.db.max(), s.unit)

docs/library.md has the first two, docs/reading.md the third. Needs numpy; what speaks to a daemon needs pyzmq."""
import importlib

from .beamform import beamform
from .messages import SCHEMA, Message, ProtocolError, recording, spectra
from .record import Record
from .recordings import Results, process, read_wav
from .session import Error, Session, library_version

__version__ = "0.1.0"
__all__ = ["SCHEMA", "Error", "Message", "ProtocolError", "Record", "Results", "Session", "beamform", "library_version",
           "process", "read_wav", "recording", "spectra"]


def __getattr__(name):
    """What needs pyzmq is imported when it is used."""
    if name.startswith("__"):
        raise AttributeError(f"module 'sonar' has no attribute '{name}'")
    try:
        return getattr(importlib.import_module(".network", __name__), name)
    except AttributeError:
        raise AttributeError(f"module 'sonar' has no attribute '{name}'") from None
