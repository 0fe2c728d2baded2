#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-3.0-or-later
"""The newest MVDR spectrum in a window of matplotlib: example_live.py [ENDPOINT]"""
import sys

import matplotlib.pyplot as plt

import sonar

endpoint = sys.argv[1] if len(sys.argv) > 1 else "tcp://127.0.0.1:5556"
figure, axes = plt.subplots()
line = None
for s in sonar.subscribe(endpoint, "mvdr.azimuth"):
    azimuth = s.axis("azimuth")
    if line is None or len(line.get_xdata()) != len(azimuth):
        axes.clear()
        (line,) = axes.plot(azimuth, s.db)
        axes.set(xlabel=f"{s.header['bearing_kind']} angle, deg", ylabel=s.db_unit)
    line.set_ydata(s.db)
    axes.set_title(f"{s.header['array']}  {s.utc}")
    axes.set_ylim(s.db.min() - 3, s.db.max() + 3)
    plt.pause(0.01)
    if not plt.fignum_exists(figure.number):
        break
