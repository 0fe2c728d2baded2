// SPDX-License-Identifier: GPL-3.0-or-later
// Normalisation is a choice of the display: what is subtracted, in dB, before a level becomes a colour. The
// absolute level stays in the row.

export type Normalisation = "none" | "s2pm" | "row";

export const NORMALISATIONS: Record<Normalisation, string> = {
    none: "absolute level",
    s2pm: "over split-window mean",
    row: "over row mean",
};

const CLIP = 2; // times the first mean; larger values belong to a source and not to the background

/** The background of each value of a row of power, as power; 1 if nothing is subtracted. */
export function background(power: Float32Array, kind: Normalisation, circular: boolean): Float32Array {
    if (kind === "s2pm") return splitWindowMean(power, circular);
    return new Float32Array(power.length).fill(kind === "row" ? mean(power) : 1);
}

function mean(power: Float32Array): number {
    let sum = 0;
    for (const p of power) sum += p;
    return sum / power.length;
}

/**
 * Split-window two-pass mean: the mean of a window around each value without the gap in its middle. Values above CLIP
 * times that mean are replaced by it, and the mean is computed again. (Struzinski and Lowe, JASA 76, 1984.)
 */
export function splitWindowMean(power: Float32Array, circular: boolean): Float32Array {
    const n = power.length;
    const gap = Math.max(2, Math.round(n / 100));
    const half = Math.min(Math.max(gap + 4, Math.round(n / 14)), (n - 1) >> 1);
    const first = splitMean(power, gap, half, circular);
    const clipped = power.map((p, i) => (p > CLIP * first[i] ? first[i] : p));
    return splitMean(clipped, gap, half, circular);
}

/** Mean of the values up to `half` away, without those up to `gap` away. At an end only the other side is used. */
function splitMean(power: Float32Array, gap: number, half: number, circular: boolean): Float32Array {
    const n = power.length;
    const sums = new Float64Array(3 * n + 1); // over three turns, so that a window may extend across the seam
    for (let i = 0; i < 3 * n; i++) sums[i + 1] = sums[i] + power[i % n];
    const out = new Float32Array(n);
    for (let i = 0; i < n; i++) {
        const [low, high] = circular ? [-n, 2 * n] : [0, n];
        const sides = [
            [Math.max(low, i - half), Math.max(low, i - gap)],
            [Math.min(high, i + gap + 1), Math.min(high, i + half + 1)],
        ];
        let sum = 0;
        let count = 0;
        for (const [from, to] of sides) {
            if (to <= from) continue;
            sum += sums[to + n] - sums[from + n];
            count += to - from;
        }
        out[i] = count > 0 ? sum / count : power[i];
    }
    return out;
}
