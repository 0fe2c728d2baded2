# SPDX-License-Identifier: GPL-3.0-or-later
"""What sonar-render and Record.plot draw alike, with matplotlib."""
import matplotlib
import matplotlib.dates as dates
import numpy as np

MOST_ROWS = 200000
GAP_COLOUR = "#e11e28"


def azimuth_title(message):
    if message.header.get("resampled"):
        return "true bearing, deg" + (", port and starboard alike" if message.header["ambiguous"] else "")
    if message.header["bearing_kind"] == "cone":
        return "angle from the array's axis, deg (port and starboard alike)"
    return "azimuth in the array frame, deg clockwise from forward"


def since_start(message):
    """Where the digitiser knows no time: that of its samples since its count began."""
    return np.timedelta64(round(1e9 * message.header["sample_index"] / message.header["fs_hz"]), "ns")


def time_of(message):
    if message.header["utc_ns"] is None:
        return f"{since_start(message) / np.timedelta64(1, 's'):.1f} s from the start"
    return f"{np.datetime_as_string(message.utc, 's')}Z"


def times(messages):
    """UTC of each message as matplotlib counts, or its time since the start where one of them has no UTC, with the
    hop: the shortest way between two."""
    dated = all(m.header["utc_ns"] is not None for m in messages)
    at = np.array([m.utc if dated else np.datetime64(0, "ns") + since_start(m) for m in messages])
    steps = np.diff(at)
    hop = steps[steps > np.timedelta64(0)].min() if (steps > np.timedelta64(0)).any() else np.timedelta64(1, "s")
    return at, hop, dated


def image(messages, rows_db, values, axes):
    """Newest on top; time that no window covers is a gap and drawn as one."""
    at, hop, dated = times(messages)
    order = np.argsort(at, kind="stable")
    at, rows_db = at[order], rows_db[order]
    place = np.round((at - at[0]) / hop).astype(int)
    if place[-1] >= MOST_ROWS:
        raise ValueError(f"from {at[0]} to {at[-1]} there is room for {place[-1]} windows: too many for a picture")
    grid = np.full((place[-1] + 1, rows_db.shape[1]), np.nan)
    grid[place] = rows_db
    edges_x = np.concatenate([[values[0] - (values[1] - values[0]) / 2], (values[1:] + values[:-1]) / 2,
                              [values[-1] + (values[-1] - values[-2]) / 2]])
    edges_t = dates.date2num(at[0] + hop * np.arange(len(grid) + 1))
    colours = matplotlib.colormaps["viridis"].with_extremes(bad=GAP_COLOUR)
    low, high = np.nanpercentile(grid, [20, 99.7])
    mesh = axes.pcolormesh(edges_x, edges_t, np.ma.masked_invalid(grid), cmap=colours, vmin=low, vmax=max(high, low + 12),
                           rasterized=True)
    axes.yaxis_date()
    axes.yaxis.set_major_formatter(dates.DateFormatter("%H:%M:%S", tz="UTC"))
    axes.set_ylabel(f"UTC, {str(at[0])[:10]}" if dated else "time from the start, h:min:s")
    return mesh


def same_axis(messages, name):
    """Those that share the newest one's axis: after another configuration there is another."""
    last = messages[-1].axis(name)
    return [m for m in messages if np.array_equal(m.axis(name), last)]
