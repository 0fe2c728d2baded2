// SPDX-License-Identifier: GPL-3.0-or-later
// Which values of a row belong to each pixel of a line.
import { nearest } from "../shared/protocol.js";
import { angleOf, bearingsOf, difference, hasTrue, inArrayFrame, isTrue, sidesOf, turn, type Bearings, type Placed } from "./bearing.js";
import type { RowAxis } from "./record.js";

/** Bearings relative to the array, or true ones. In true bearings a line array's row appears twice. */
export type Frame = "array" | "true";

export interface Columns {
    first: Int32Array; // first value of each pixel; -1: the pixel has no value
    last: Int32Array; // last value of each pixel; a circular axis continues from its end to its beginning
}

/** Rounding tolerance for the common edge of two pixels. */
const ROUNDING = 1e-9;

export interface Extent {
    low: number;
    high: number;
}

/** The whole extent of an axis: half a step beyond its ends, or once around. */
export function wholeExtent(axis: RowAxis, frame: Frame): Extent {
    if (frame === "true") return { low: 0, high: 360 };
    const { values } = axis;
    const n = values.length;
    if (n < 2) return { low: values[0] - 0.5, high: values[0] + 0.5 };
    if (axis.circular) return { low: values[0], high: values[0] + 360 };
    return { low: values[0] - (values[1] - values[0]) / 2, high: values[n - 1] + (values[n - 1] - values[n - 2]) / 2 };
}

/** Where the shown axis begins if it is a circle, or null. */
export function circleStart(axis: RowAxis, frame: Frame): number | null {
    return frame === "true" || axis.circular ? wholeExtent(axis, frame).low : null;
}

/** A pixel shows the largest of the values in it, or the nearest value if it contains none. */
export function columnsOf(axis: RowAxis, bearings: Bearings, frame: Frame, shown: Extent, width: number): Columns {
    const columns = { first: new Int32Array(width).fill(-1), last: new Int32Array(width).fill(-1) };
    if (frame === "true" && !hasTrue(bearings)) return columns;
    const toAxis = toAxisOf(bearings, frame);
    const whole = wholeExtent(axis, "array");
    const step = (shown.high - shown.low) / width;
    for (let i = 0; i < width; i++) {
        const left = shown.low + i * step;
        const raw = toAxis(left + step / 2);
        const middle = axis.circular ? unroll(raw, axis.values[0]) : raw;
        if (!(middle >= whole.low && middle <= whole.high)) continue;
        const ends = [left, left + step].map((x) => (axis.circular ? middle + difference(toAxis(x), raw) : toAxis(x))).filter(Number.isFinite);
        const low = countBelow(axis, Math.min(middle, ...ends) - ROUNDING);
        const high = countBelow(axis, Math.max(middle, ...ends) - ROUNDING) - 1;
        const close = closest(axis, middle);
        const n = axis.values.length;
        columns.first[i] = low > high ? close : low < 0 ? low + n : low;
        columns.last[i] = low > high ? close : low < 0 ? high + n : high;
    }
    return columns;
}

/** Converts from the shown axis to the row's own axis; each may be in true bearings or relative to the array. */
function toAxisOf(bearings: Bearings, frame: Frame): (x: number) => number {
    if (frame === "true") return (x) => angleOf(bearings, x);
    if (!isTrue(bearings)) return (x) => x;
    const array = inArrayFrame(bearings);
    return (x) => bearingsOf(array, x)[0] ?? NaN;
}

/** The places of a detection on the axis. In true bearings: on its side, or on both while the side is unknown. */
export function placesOf(bearings: Bearings, frame: Frame, detection: Placed): number[] {
    return frame === "true" ? sidesOf(bearings, detection) : [detection.az_deg];
}

/** Index and value of the largest value under a pixel. */
export function largest(values: Float32Array, columns: Columns, x: number): { column: number; value: number } {
    const n = values.length;
    let column = columns.first[x];
    for (let c = column + 1; c <= columns.last[x]; c++) if (values[c % n] > values[column]) column = c % n;
    return { column, value: values[column] };
}

/** Number of directions below x; on a circular axis including those of the turns before and after. */
function countBelow(axis: RowAxis, x: number): number {
    if (!axis.circular) return lowerIndex(axis.values, x);
    const turns = Math.floor((x - axis.values[0]) / 360);
    return turns * axis.values.length + lowerIndex(axis.values, x - 360 * turns);
}

/** The value nearest to x, on a circular axis also across the seam. */
export function closest(axis: RowAxis, x: number): number {
    const { values } = axis;
    const n = values.length;
    if (!axis.circular) return nearest(values, x);
    const place = unroll(x, values[0]);
    const found = nearest(values, place);
    return values[0] + 360 - place < place - values[n - 1] ? 0 : found;
}

/** x plus as many turns as bring it to start or above. */
function unroll(x: number, start: number): number {
    return start + turn(x - start);
}

function lowerIndex(values: Float64Array, x: number): number {
    let low = 0;
    let high = values.length;
    while (low < high) {
        const middle = (low + high) >> 1;
        if (values[middle] < x) low = middle + 1;
        else high = middle;
    }
    return low;
}
