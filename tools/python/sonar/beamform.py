# SPDX-License-Identifier: GPL-3.0-or-later
"""Arrays in, a record out: a configuration is made of the arguments, and the library computes as sonard would."""
import math

import numpy as np

from .record import Record
from .session import Session

TOPIC = {"cbf": "cbf.azimuth", "mvdr": "mvdr.azimuth"}


def beamform(samples, positions, fs, *, method="cbf", band_hz=None, sound_speed=1500, window=None, hop=None,
             gain_db=None, heading_deg=None, utc=None, options=None):
    """Power over azimuth and time, as a Record.

    samples      [sample][sensor], numbers; integers are counts
    positions    [sensor][3] in m: x forward, y right, z down; or [sensor][2], all at one depth
    fs           sampling rate in Hz
    method       "cbf", conventional, or "mvdr", adaptive
    band_hz      (low, high); default: up to half a wavelength between neighbours, from one wavelength of aperture
    sound_speed  m/s
    window, hop  samples of a window, and from one to the next; default: the power of two next to a second, half of it
    gain_db      sensitivity, dB re 1 count/uPa, one number or one for each sensor; without it powers are counts^2
    heading_deg  of x, clockwise from north; azimuths stay in the array's frame
    utc          of the first sample: numpy.datetime64, or a text such as 2026-01-31T12:00:00
    options      more of sonard's configuration, such as {"cbf": {"shading": "hann"}}: docs/configuration.md

    Azimuths count clockwise from x, seen from above; of a straight line they are angles from its axis, 0 to 180."""
    if method not in TOPIC:
        raise ValueError(f"method is '{method}'; cbf and mvdr are accepted")
    fs = _rate(fs)
    positions = _positions(positions)
    samples = _samples(samples, len(positions))
    config = _config(positions, fs, method, band_hz, sound_speed, window, hop, gain_db, heading_deg, len(samples))
    with Session(merged(config, options or {}), [TOPIC[method]]) as session:
        session.feed(samples, fs, utc_ns(utc))
        session.finish()
        return Record(session)


# ---- what a newcomer may give


def _rate(fs):
    if not isinstance(fs, (int, float, np.number)) or isinstance(fs, bool) or not (0 < fs < math.inf):
        raise ValueError(f"fs is {fs!r}; the sampling rate in Hz is wanted, such as 48000")
    return float(fs)


def _numbers(what, values, shape):
    try:
        values = np.asarray(values)
    except ValueError:
        raise ValueError(f"{what} are no array, as {shape}: have all rows the same length?") from None
    if values.dtype.kind not in "iuf":
        raise ValueError(f"{what} are of the type {values.dtype}; real numbers are wanted, as {shape}")
    return values


def _positions(positions):
    positions = _numbers("positions", positions, "[sensor][3] in m")
    if positions.ndim != 2 or positions.shape[1] not in (2, 3) or not len(positions):
        turned = positions.ndim == 2 and positions.shape[0] in (2, 3)
        raise ValueError(f"positions have the shape {positions.shape}; a row [x, y, z] in m is wanted for each "
                         f"sensor{': positions.T has that' if turned else ''}")
    wrong = np.argwhere(~np.isfinite(positions))
    if len(wrong):
        raise ValueError(f"positions[{wrong[0][0]}] is {positions[wrong[0][0]].tolist()}: numbers in m are wanted")
    return np.hstack([positions, np.zeros((len(positions), 3 - positions.shape[1]))])


def _samples(samples, sensors):
    samples = _numbers("samples", samples, "[sample][sensor]")
    if samples.ndim != 2 or samples.shape[1] != sensors:
        raise ValueError(_misfit(samples.shape, sensors))
    if samples.dtype.kind == "f":
        most = 3.4e38  # of a float32; min and max are NaN if a sample is
        if samples.size and not (-most < samples.min() and samples.max() < most):
            wrong = np.argwhere(~(np.abs(samples) < most))
            i, sensor = wrong[0]
            raise ValueError(f"samples[{i}, {sensor}] is {samples[i, sensor]}, no finite 32-bit number, nor are "
                             f"{len(wrong) - 1} others: where samples are missing, feed the pieces to a "
                             "sonar.Session, with skip() between them")
    return samples


def _misfit(shape, sensors):
    said = f"samples have the shape {shape}, positions {sensors} rows; [sample][sensor] is wanted"
    if len(shape) == 2 and shape[0] == sensors:
        return f"{said}: samples.T has that"
    if len(shape) == 2 and shape[1] > sensors:
        return (f"{said}: are {shape[1] - sensors} rows missing in positions? Else choose the channels, "
                "samples[:, [0, 1, ...]]")
    if len(shape) == 2:
        return f"{said}: {sensors - shape[1]} channels are missing, or positions have too many rows"
    return said


def utc_ns(utc):
    """Since 1970; 0: unknown."""
    if utc is None:
        return 0
    try:
        return int(np.datetime64(utc.removesuffix("Z") if isinstance(utc, str) else utc, "ns").astype(np.int64))
    except ValueError:
        raise ValueError(f"utc is {utc!r}; a time such as 2026-01-31T12:00:00 is wanted") from None


# ---- the configuration


def default_band(positions, fs, sound_speed):
    """From the frequency at which the array is a wavelength long to that at which neighbours are half of one apart, by
    the median distance of the nearest; at most 0.45 fs."""
    if len(positions) < 2:
        return 0.05 * fs, 0.45 * fs
    apart = [np.sort(np.linalg.norm(positions - at, axis=1))[1] for at in positions]
    aperture_m = np.linalg.norm(np.ptp(positions, axis=0))
    top = min(0.45 * fs, sound_speed / max(2 * np.median(apart), 1e-9))
    return min(sound_speed / max(aperture_m, 1e-9), top / 2), top


def _config(positions, fs, method, band_hz, sound_speed, window, hop, gain_db, heading_deg, samples):
    window = 1 << math.ceil(math.log2(max(fs, 2))) if window is None else int(window)
    hop = max(window // 2, 1) if hop is None else int(hop)
    if samples < window:
        raise ValueError(f"{samples} samples are shorter than a window of {window}; give a shorter one, such as "
                         f"window={max(1 << max(samples, 4).bit_length() - 3, 2)}")
    band = [float(hz) for hz in (default_band(positions, fs, sound_speed) if band_hz is None else band_hz)]
    config = {"schema": 1, "fs_hz": fs, "sound_speed_mps": sound_speed,
              "array": {"geometry": {"positions": {"list": positions.tolist()}}},
              "dft": {"length": window, "hop": hop}, "cbf": {"band_hz": band, "ranges_m": []},
              "mvdr": {"enabled": method == "mvdr"}, "runtime": {"backend": "cpu"}}
    if method == "mvdr":  # shorter snapshots, of which there are soon enough
        length = max(window // 8, 2)
        config["mvdr"].update(length=length, hop=max(length // 2, 1), snapshots=max(64, 2 * len(positions)))
    if gain_db is not None:
        config["array"]["gain_db"] = np.asarray(gain_db, float).tolist()
    if heading_deg is not None:
        config["array"]["heading_deg"] = float(heading_deg)
    return config


def merged(base, more):
    """`more` in place of what `base` has, group by group."""
    both = {key for key in more if isinstance(more[key], dict) and isinstance(base.get(key), dict)}
    return {**base, **more, **{key: merged(base[key], more[key]) for key in both}}
