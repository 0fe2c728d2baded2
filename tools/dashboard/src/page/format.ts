// SPDX-License-Identifier: GPL-3.0-or-later
// Numbers and times as they are shown.
import { isRatio } from "./kinds.js";

export function utcTime(ms: number, decimals = 0): string {
    const iso = new Date(ms).toISOString();
    return iso.slice(11, decimals > 0 ? 20 + decimals : 19);
}

export function utcDate(ms: number): string {
    return new Date(ms).toISOString().slice(0, 10);
}

/** An age or a duration, in its two largest units. */
export function duration(s: number): string {
    if (!Number.isFinite(s)) return "–";
    if (s < 10) return `${s.toFixed(1)} s`;
    if (s < 120) return `${Math.round(s)} s`;
    if (s < 7200) return `${Math.floor(s / 60)} min ${Math.round(s % 60)} s`;
    if (s < 172_800) return `${Math.floor(s / 3600)} h ${Math.round((s % 3600) / 60)} min`;
    return `${Math.floor(s / 86_400)} d ${Math.round((s % 86_400) / 3600)} h`;
}

/** Number of decimals that distinguishes two values at this distance. */
export function decimalsFor(step: number): number {
    return Math.max(0, Math.min(6, -Math.floor(Math.log10(step) + 1e-9)));
}

const NICE = [1, 2, 5, 10];
const NICE_DEG = [1, 2, 5, 10, 15, 30, 45, 60, 90];
const NICE_S = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600];

/** Round values between low and high, at most `most` of them. */
export function ticks(low: number, high: number, most: number, unit: string | null = null): number[] {
    const wanted = (high - low) / Math.max(1, most);
    const step = unit === "deg" && wanted > 0.5 ? (NICE_DEG.find((n) => n >= wanted) ?? 180) : niceStep(wanted);
    const first = Math.ceil(low / step - 1e-9);
    const count = Math.floor(high / step + 1e-9) - first + 1;
    return Array.from({ length: Math.max(0, count) }, (_, i) => (first + i) * step);
}

export function timeTicks(low_ms: number, high_ms: number, most: number): number[] {
    const wanted_s = (high_ms - low_ms) / 1000 / Math.max(1, most);
    const step = 1000 * (NICE_S.find((n) => n >= wanted_s) ?? 7200);
    const values: number[] = [];
    for (let t = Math.ceil(low_ms / step) * step; t <= high_ms; t += step) values.push(t);
    return values;
}

function niceStep(wanted: number): number {
    if (!(wanted > 0)) return 1;
    const power = 10 ** Math.floor(Math.log10(wanted));
    return power * (NICE.find((n) => n * power >= wanted * (1 - 1e-9)) ?? 10);
}

export function fixed(value: number | null | undefined, decimals: number): string {
    return value === null || value === undefined ? "–" : value.toFixed(decimals);
}

/** Milliseconds, or seconds if there are many. */
export function latency(us: number | null | undefined): string {
    if (us === null || us === undefined) return "–";
    return us < 1e6 ? `${(us / 1000).toFixed(1)} ms` : `${(us / 1e6).toFixed(2)} s`;
}

/** A power in dB. */
export function decibels(power: number): number {
    return 10 * Math.log10(Math.max(power, 1e-30));
}

/** A level, or a ratio in dB, as text; zero has none. */
export function levelText(power: number, unit: string | null): string {
    if (!(power > 0)) return isRatio(unit) ? "zero" : "no power";
    return `${decibels(power).toFixed(2)} ${referenceOf(unit)}`;
}

export function referenceOf(unit: string | null): string {
    if (isRatio(unit)) return "dB";
    return `dB re 1 ${(unit ?? "?").replace("uPa", "µPa").replace("^2", "²")}`;
}
