// SPDX-License-Identifier: GPL-3.0-or-later
// MUSIC's pseudo-spectrum. It shows bearings but no levels, so it has its own scale: 0 dB without a source, and higher
// the better a plane wave from that direction fits.
import { decibels, fixed } from "./format.js";
import type { Row } from "./record.js";

export const MUSIC = "music.azimuth";
const STEP_DB = 5;

/** From 0 to above its highest peak, in steps, so that the axis does not move. */
export function musicLimits(row: Row | null): [number, number] {
    const highest = row ? row.data.reduce((most, value) => Math.max(most, decibels(value)), 0) : 0;
    return [0, STEP_DB * Math.ceil(highest / STEP_DB + 1)];
}

/** Text of the legend, short and in full. */
export function musicText(row: Row | null): { short: string; full: string } {
    const what = "a pseudo-spectrum: bearings, no levels";
    if (!row) return { short: "MUSIC: none (mvdr.music)", full: `${what}; mvdr.music in the daemon's configuration makes it` };
    const { music } = row.header;
    const sources = music ? `; ${music.counted ? "median " : ""}${fixed(music.median, 0)} source${music.median === 1 ? "" : "s"} in a bin` : "";
    return { short: "MUSIC (own scale, no level)", full: `${what}; scale on the right, 0 dB where nothing is${sources}` };
}
