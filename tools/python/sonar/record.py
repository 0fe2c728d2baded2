# SPDX-License-Identifier: GPL-3.0-or-later
"""The messages of one topic as one array over time, with axes and units."""
import numpy as np


class Record:
    """One topic over time. `power` is [window] and the axes of the topic, absolute and linear; other attributes:

    topic, unit     of the power; of other topics what the header says
    time            of each window's first sample: UTC (datetime64), or seconds from the start where UTC is unknown
    az_deg, range_m, frequency_hz    values of the axis, where there is one
    db              10 log10 of the power
    flags           a list for each window
    messages        as they came, with all fields of their headers"""

    def __init__(self, messages):
        self.messages = list(messages)
        if not self.messages:
            raise ValueError("no message came: the samples are shorter than a window")
        first = self.messages[0]
        self.topic, self.unit = first.topic, first.unit
        self.names = [axis["name"] for axis in first.header["axes"]]
        self.power = np.array([m.data for m in self.messages])
        self.flags = [m.flags for m in self.messages]
        self.dated = all(m.header["utc_ns"] is not None for m in self.messages)
        self.time_s = np.array([m.header["sample_index"] / m.header["fs_hz"] for m in self.messages])
        self.time = np.array([m.utc for m in self.messages]) if self.dated else self.time_s

    def __repr__(self):
        axes = "".join(f"[{name} {size}]" for name, size in zip(["window", *self.names], self.power.shape))
        return f"<sonar.Record {self.topic} {axes}, {self.unit}>"

    def __len__(self):
        return len(self.messages)

    def axis(self, name):
        """Values of an axis by its name, such as azimuth."""
        if name not in self.names:
            raise AttributeError(f"{self.topic} has no axis '{name}', but {', '.join(self.names) or 'none'}")
        return self.messages[0].axis(name)

    az_deg = property(lambda self: self.axis("azimuth"))
    range_m = property(lambda self: self.axis("range"))
    frequency_hz = property(lambda self: self.axis("frequency"))
    db = property(lambda self: 10 * np.log10(np.maximum(self.power, 1e-30)))

    def to_xarray(self):
        """As xarray.DataArray, with coordinates and units."""
        try:
            import xarray
        except ImportError:
            raise ImportError("to_xarray() needs the package xarray, which is not installed") from None
        axes = zip(self.names, self.messages[0].header["axes"])
        coordinates = {name: (name, self.axis(name), {"units": axis.get("unit") or "1"}) for name, axis in axes}
        coordinates["time"] = ("time", self.time, {} if self.dated else {"units": "s"})
        return xarray.DataArray(self.power, coordinates, ["time", *self.names], self.topic, {"units": self.unit})

    def plot(self, axes=None):
        """The record over its axis and time, newest on top, in dB, as sonar-render draws it; needs matplotlib. Returns
        the axes."""
        if len(self.names) != 1:
            raise ValueError(f"plot() draws records of one axis, and {self.topic} has "
                             f"{' and '.join(self.names) or 'none'}: draw power[window] with matplotlib")
        try:
            import matplotlib.pyplot as plt
        except ImportError:
            raise ImportError("plot() needs the package matplotlib, which is not installed") from None
        from . import pictures

        axes = axes or plt.subplots(layout="constrained")[1]
        mesh = pictures.image(self.messages, self.db, self.axis(self.names[0]), axes)
        axes.figure.colorbar(mesh, ax=axes, label=self.messages[0].db_unit)
        axes.set(title=self.topic, xlabel=pictures.azimuth_title(self.messages[-1]) if "azimuth" in self.names
                 else self.names[0])
        return axes
