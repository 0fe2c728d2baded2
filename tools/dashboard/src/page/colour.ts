// SPDX-License-Identifier: GPL-3.0-or-later
// Colour tables, as the pixels of an ImageData on a little-endian machine: 0xAABBGGRR.
import { STEPS } from "./palettes.js";

export const PALETTES = Object.keys(STEPS);
export const SHADES = 256;

/** The colour of nothing: no row was there yet. */
export const EMPTY = pixel(10, 14, 20);
/** The colour of a gap, which no palette has. */
export const GAP = pixel(225, 30, 40);
/** The colour of a detection's marks. */
export const MARK = pixel(235, 235, 235);

export function pixel(red: number, green: number, blue: number): number {
    return ((255 << 24) | (blue << 16) | (green << 8) | red) >>> 0;
}

/** The same as CSS writes it. */
export function pixelText(value: number): string {
    return `rgb(${value & 255}, ${(value >> 8) & 255}, ${(value >> 16) & 255})`;
}

/** SHADES colours of a palette, the lowest level first. */
export function shades(palette: string): Uint32Array {
    const steps = (STEPS[palette] ?? STEPS.viridis).map((hex) => [1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16)));
    return Uint32Array.from({ length: SHADES }, (_, i) => {
        const place = (i / (SHADES - 1)) * (steps.length - 1);
        const low = Math.min(Math.floor(place), steps.length - 2);
        const mix = (c: number) => Math.round(steps[low][c] + (place - low) * (steps[low + 1][c] - steps[low][c]));
        return pixel(mix(0), mix(1), mix(2));
    });
}
