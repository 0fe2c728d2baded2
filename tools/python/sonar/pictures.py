# SPDX-License-Identifier: GPL-3.0-or-later
"""What sonar-render and Record.plot draw alike, with matplotlib."""
import matplotlib
import matplotlib.dates as dates
import matplotlib.patheffects as effects
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


STYLES = {"tentative": ":", "confirmed": "-", "coasting": "--", "lost": "-"}
LABEL_PT = 8
SIGNS = {"tentative": "?", "confirmed": "", "coasting": "…", "lost": "×"}


def tracks(messages, listed, axes):
    """The lines of tracks over image() of the same messages, with each number beside its newest place: dotted while
    tentative, dashed while coasting, with a bar where lost. `listed`: the rows of Results.tracks or tracks.json."""
    at, hop, _ = times(messages)
    middle = {m.window: time + hop / 2 for m, time in zip(messages, at)}
    is_true, circle = bool(messages[-1].header.get("resampled")), messages[-1].header["bearing_kind"] != "cone"
    low, high = axes.get_xlim()
    edged = [effects.withStroke(linewidth=2.6, foreground="black")]
    labels = []
    for number in sorted({t["number"] for t in listed}):
        points = sorted(((middle[t["window"]], t["state"], _places(t, is_true, low if circle else None))
                         for t in listed if t["number"] == number and t["window"] in middle), key=lambda point: point[0])
        for state, xs, ys in strokes(points, hop, circle):
            axes.plot(xs, dates.date2num(ys), STYLES[state], color="white", linewidth=1.2, path_effects=edged,
                      marker="." if len(xs) == 1 else "", gid=f"track {number} {state}")
        for x in points[-1][2] if points else ():
            time, state, _ = points[-1]
            if state == "lost":
                axes.plot([x], [dates.date2num(time)], "_", color="white", markersize=12, path_effects=edged)
            labels.append((f"{number}{SIGNS[state]}", (x, dates.date2num(time))))
    axes.set_xlim(low, high)
    points = axes.transData.transform([place for _, place in labels]) * 72 / axes.figure.dpi if labels else ()
    for (text, place), offset in zip(labels, free_offsets(points, [text for text, _ in labels])):
        axes.annotate(text, place, offset, textcoords="offset points", va="top", color="white", fontsize=LABEL_PT,
                      path_effects=edged, annotation_clip=True)


def free_offsets(points, texts):
    """Where labels stand, in typographic points from their places: each right below its place, and lower where it would
    stand on one before it."""
    wide, high, taken, offsets = 0.75 * LABEL_PT, 1.3 * LABEL_PT, [], []
    for (x, y), text in zip(points, texts):
        left, top, width = x + 5, y - 2, wide * len(text)
        while under := [t for a, t, w in taken if left < a + w and a < left + width and abs(top - t) < high - 0.01]:
            top = min(under) - high
        taken.append((left, top, width))
        offsets.append((5, top - y))
    return offsets


def _places(track, is_true, start):
    """On the axis: the angle in the scan, or the true bearings; a circle begins at `start`."""
    own = [b["bearing_deg"] for b in track["bearings"]] if track["bearing_reference"] == "true" else []
    found = own if is_true else [track["az_deg"]]
    return found if start is None else [start + (x - start) % 360 for x in found]


def strokes(points, hop, circle):
    """The lines of one track: [(state, places, times)]. `points`: (time, state, places), of which a line's two sides are
    two. A line ends where a window is missing. Where it goes over the end of a circle, it goes on beyond, and another one
    begins before the circle's beginning."""
    lines, before, last = [], None, []
    for time, state, places in points:
        left = list(last) if before is not None and time - before < 1.5 * hop else []
        now = []
        for x in places:
            line = min(left, key=lambda one: abs(_moved(one[1][-1], x, circle)), default=None)
            if line:
                left.remove(line)
                was, moved = line[1][-1], _moved(line[1][-1], x, circle)
                if abs(was + moved - x) > 1e-6:  # over the end
                    line[1].append(was + moved), line[2].append(time)
                    line = (state, [x - moved, x], [before, time])
                    lines.append(line)
                elif line[0] == state:
                    line[1].append(x), line[2].append(time)
                else:
                    line = (state, [was, x], [before, time])
                    lines.append(line)
            else:
                line = (state, [x], [time])
                lines.append(line)
            now.append(line)
        before, last = time, now
    return lines


def _moved(was, x, circle):
    return (x - was + 180) % 360 - 180 if circle else x - was


def same_axis(messages, name):
    """Those that share the newest one's axis: after another configuration there is another."""
    last = messages[-1].axis(name)
    return [m for m in messages if np.array_equal(m.axis(name), last)]
