// SPDX-License-Identifier: GPL-3.0-or-later
// Eigenvalues of each bin, [bin][mode], as levels by mode.
import { axisValues, type Axis } from "../shared/protocol.js";
import { decibels } from "./format.js";

export interface ModeLevels {
    frequencies: Float64Array;
    levels: (number | null)[][]; // dB, [mode][bin]; null: zero, for example while the block of snapshots fills
    strongest: number; // bin of the largest eigenvalue
    limits: [number, number]; // limits in dB that contain the levels
}

const STEP_DB = 5;
const DEEPEST_DB = 80; // below the largest; levels further down are only rounding
const MOST_CURVES = 64;

export function levelsOf(data: Float32Array, frequency: Axis, [bins, modes]: number[]): ModeLevels {
    const levels = Array.from({ length: modes }, (_, mode) =>
        Array.from({ length: bins }, (_, bin) => {
            const power = data[bin * modes + mode];
            return power > 0 ? decibels(power) : null;
        }),
    );
    const first = levels[0] ?? [];
    const strongest = first.reduce<number>((best, level, bin) => ((level ?? -Infinity) > (first[best] ?? -Infinity) ? bin : best), 0);
    const known = levels.flat().filter((level): level is number => level !== null);
    const [low, high] = known.reduce(([a, b], level) => [Math.min(a, level), Math.max(b, level)], [Infinity, -Infinity]);
    const limits: [number, number] = low <= high
        ? [STEP_DB * Math.floor(Math.max(low, high - DEEPEST_DB) / STEP_DB), STEP_DB * Math.ceil(high / STEP_DB + 0.2)]
        : [0, STEP_DB];
    return { frequencies: axisValues(frequency, bins), levels, strongest, limits };
}

/** All modes, or the largest half and some of the others, because hundreds of curves cannot be distinguished. */
export function modesShown(count: number): number[] {
    if (count <= MOST_CURVES) return Array.from({ length: count }, (_, mode) => mode);
    const half = MOST_CURVES / 2;
    return Array.from({ length: MOST_CURVES }, (_, i) =>
        i < half ? i : half + Math.round(((i - half + 1) / half) * (count - 1 - half)));
}
