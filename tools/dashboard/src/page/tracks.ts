// SPDX-License-Identifier: GPL-3.0-or-later
// Tracks: the newest values of each, and what is drawn of them in each window.
import type { Track } from "../shared/protocol.js";
import { difference, isTrue, turn, type Bearings, type Placed } from "./bearing.js";
import type { Frame } from "./columns.js";

export interface Followed {
    now: Track; // as last received
    by: Bearings; // the reference of its bearings
    last_ms: number; // time of that window
}

const MOST = 200; // those included that were lost while the record still shows them

export class Tracks {
    /** By number. */
    list: Followed[] = [];

    clear(): void {
        this.list = [];
    }

    find(number: number | null): Followed | null {
        return this.list.find(({ now }) => now.number === number) ?? null;
    }

    /** Takes the tracks of the window at utc_ms. Earlier ones are kept for keep_ms. */
    update(tracks: readonly Track[], utc_ms: number, by: Bearings, keep_ms: number): void {
        const numbers = new Set(tracks.map(({ number }) => number));
        const before = this.list.filter((t) => !numbers.has(t.now.number) && t.last_ms <= utc_ms && utc_ms - t.last_ms < keep_ms);
        const oldest = before.sort((a, b) => b.last_ms - a.last_ms).slice(0, Math.max(0, MOST - tracks.length));
        this.list = [...oldest, ...tracks.map((now) => ({ now, by, last_ms: utc_ms }))].sort((a, b) => a.now.number - b.now.number);
    }
}

/** The place of a track, as that of a detection: on its side, or on both while the side is unknown. */
export function placedOf({ az_deg, bearings: [first, second] }: Track): Placed {
    return { az_deg, bearing_deg: first.bearing_deg, mirror_deg: second?.bearing_deg ?? null, side: second ? "unknown" : first.side };
}

/** After a track's number in a picture. */
export const SIGNS: Record<Track["state"], string> = { tentative: "?", confirmed: "", coasting: "…", lost: "×" };
const STATES = Object.keys(SIGNS) as Track["state"][];

/** The tracks of a window as they are drawn. Each takes STRIDE values: number, index of its state, az_deg, and two true
 * bearings (NaN: none). All windows of a record keep them, so they are not objects. */
export type Traces = Float32Array;

const STRIDE = 5;
export const NO_TRACES: Traces = new Float32Array(0);

export function tracesOf(tracks: readonly Track[], by: Bearings): Traces {
    const traces = new Float32Array(STRIDE * tracks.length);
    tracks.forEach(({ number, state, az_deg, bearings }, i) => {
        const [first, second] = isTrue(by) ? bearings.map((b) => b.bearing_deg) : [];
        traces.set([number, Math.max(0, STATES.indexOf(state)), az_deg, first ?? NaN, second ?? NaN], STRIDE * i);
    });
    return traces;
}

/** A part of a track's line within one window: from its place in the window before to that in this one. */
export interface Run {
    number: number;
    state: Track["state"];
    from: number;
    to: number;
}

/**
 * The runs of a window, on an axis that begins at `start` if it is a circle, and otherwise has no `start`. `before`: the
 * traces of the window before; null: nothing is known of it, so that no line comes from there. Where a track goes over
 * the end of a circle, its line leaves there and enters at the beginning: two runs, which the picture cuts.
 */
export function runsOf(traces: Traces, before: Traces | null, frame: Frame, start: number | null): Run[] {
    const runs: Run[] = [];
    const on = (deg: number) => (start === null ? deg : start + turn(deg - start));
    for (let i = 0; i < traces.length; i += STRIDE) {
        const [number, state] = [traces[i], STATES[traces[i + 1]]];
        const last = before ? placeOf(before, number) : -1;
        for (const k of frame === "array" ? [2] : [3, 4]) {
            const to = on(traces[i + k]);
            if (Number.isNaN(to)) continue;
            const old = last < 0 ? to : on(nearestSide(before!, last, k, to));
            const moved = start === null ? to - old : difference(to, old);
            runs.push({ number, state, from: to - moved, to });
            if (Math.abs(to - moved - old) > 1e-9) runs.push({ number, state, from: old, to: old + moved });
        }
    }
    return runs;
}

function placeOf(traces: Traces, number: number): number {
    for (let i = 0; i < traces.length; i += STRIDE) if (traces[i] === number) return i;
    return -1;
}

/** Of the bearings of the window before that which continues to `to`: sides change places when one of them becomes
 * more probable, or is dropped. */
function nearestSide(before: Traces, at: number, k: number, to: number): number {
    const sides = k === 2 ? [before[at + 2]] : [before[at + 3], before[at + 4]].filter((deg) => !Number.isNaN(deg));
    return sides.reduce((best, deg) => (Math.abs(difference(deg, to)) < Math.abs(difference(best, to)) ? deg : best), sides[0] ?? to);
}

const DASHES: Record<Track["state"], [number, number]> = { tentative: [2, 6], confirmed: [1, 1], coasting: [8, 13], lost: [1, 1] };

/** Whether a line of a track has ink at a height, in pixels: dots while tentative, dashes while coasting. */
export function isInked(state: Track["state"], height: number): boolean {
    const [ink, period] = DASHES[state];
    return ((height % period) + period) % period < ink;
}
