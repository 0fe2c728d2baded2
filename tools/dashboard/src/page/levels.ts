// SPDX-License-Identifier: GPL-3.0-or-later
// The range of levels that the colours span, found from the newest rows.
import { background, type Normalisation } from "./normalise.js";
import type { Row } from "./record.js";

export interface Levels {
    low_db: number;
    high_db: number;
}

const ROWS = 40;
const LEAST_DB = 12;
const IDLE_DB = 2; // a smaller change is ignored, because it would change the colours of the whole picture

/** From the level below which a fifth of all values lies to that of the loudest few. */
export function automaticLevels(rows: readonly Row[], kind: Normalisation, before: Levels | null): Levels | null {
    const levels: number[] = [];
    const step = Math.max(1, Math.floor(rows.length / ROWS));
    for (let i = rows.length - 1; i >= 0 && i > rows.length - 1 - ROWS * step; i -= step) {
        const { data, axis } = rows[i];
        const below = background(data, kind, axis.circular);
        for (let c = 0; c < data.length; c++)
            if (data[c] > 0) levels.push(10 * Math.log10(data[c] / Math.max(below[c], 1e-30)));
    }
    if (levels.length === 0) return before;
    const sorted = Float64Array.from(levels).sort();
    const low_db = Math.floor(sorted[Math.floor(0.2 * sorted.length)]);
    const high_db = Math.max(low_db + LEAST_DB, Math.ceil(sorted[Math.floor(0.997 * sorted.length)]));
    const close = before && Math.abs(low_db - before.low_db) <= IDLE_DB && Math.abs(high_db - before.high_db) <= IDLE_DB;
    return close ? before : { low_db, high_db };
}
