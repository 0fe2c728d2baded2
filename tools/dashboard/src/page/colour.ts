// SPDX-License-Identifier: GPL-3.0-or-later
// Colour tables, as the pixels of an ImageData on a little-endian machine: 0xAABBGGRR.
import { STEPS } from "./palettes.js";

export const PALETTES = Object.keys(STEPS);
export const SHADES = 256;

/** Colour of missing rows. */
export const EMPTY = pixel(10, 14, 20);
/** Colour of the ticks at lost windows; no palette has it. */
export const GAP = pixel(225, 30, 40);
/** Colour of the ticks at windows with missing samples. */
export const PART = pixel(240, 176, 64);
/** The colour of a detection's marks. */
export const MARK = pixel(235, 235, 235);

/** Colours of the tracks' lines, of the followed one's, and of their edges, which show on every palette. */
export const TRACK = pixel(255, 255, 255);
export const FOLLOWED = pixel(255, 154, 213);
export const TRACK_EDGE = pixel(0, 0, 0);

/** Colours of an element's faults, the worst first; then of elements without faults. */
export const FAULT_COLOURS: Record<string, string> = {
    dead: "#ff5a5f", stuck: "#ff9ad5", clipped: "#f0b440", noisy: "#a873ff", hum: "#58c48a", identical: "#f5f5f5",
};
export const WELL = "#4f9fe8";
export const MASKED = "#8794a6"; // masked and not faulty

export function pixel(red: number, green: number, blue: number): number {
    return ((255 << 24) | (blue << 16) | (green << 8) | red) >>> 0;
}

/** The same in CSS notation. */
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
