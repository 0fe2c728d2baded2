// SPDX-License-Identifier: GPL-3.0-or-later
// Where hydrophones are drawn: a side view above a plan, on one scale and with one forward axis.

export interface Place {
    left: number;
    top: number;
    width: number;
    height: number;
}

/** One view of the array: forward is across; downwards is either the array's right or its depth. */
export interface ArrayPane {
    place: Place;
    low: number; // metres at the top
    high: number; // and at the bottom
}

export interface ArrayFit {
    px_per_m: number;
    forward: [number, number]; // metres at the left and the right edge
    side: ArrayPane;
    plan: ArrayPane;
}

const LONE_PX_PER_M = 20; // scale if all positions are the same

/** positions: [channel][forward, right, down], NaN for channels without a hydrophone. Null: there are none. */
export function fitArray(positions: Float32Array, place: Place, pad: number, gap: number): ArrayFit | null {
    const [x, y, z] = [0, 1, 2].map((i) => extentOf(positions, i));
    if (!x || !y || !z) return null;
    const tall = place.height - gap;
    const room = (pixels: number, metres: number) => (metres > 0 ? Math.max(1, pixels) / metres : Infinity);
    const both = room(tall - 4 * pad, y[1] - y[0] + z[1] - z[0]);
    const fitting = Math.min(room(place.width - 2 * pad, x[1] - x[0]), both);
    const px_per_m = Number.isFinite(fitting) ? fitting : LONE_PX_PER_M;
    const spare = tall - 4 * pad - (y[1] - y[0] + z[1] - z[0]) * px_per_m;
    const sideHeight = (z[1] - z[0]) * px_per_m + 2 * pad + spare / 2;
    const pane = (extent: [number, number], top: number, height: number): ArrayPane => {
        const [low, high] = around(extent, height / px_per_m);
        return { place: { ...place, top, height }, low, high };
    };
    return {
        px_per_m,
        forward: around(x, place.width / px_per_m),
        side: pane(z, place.top, sideHeight),
        plan: pane(y, place.top + sideHeight + gap, tall - sideHeight),
    };
}

export function placeIn(fit: ArrayFit, pane: ArrayPane, forward_m: number, other_m: number): [number, number] {
    return [pane.place.left + (forward_m - fit.forward[0]) * fit.px_per_m, pane.place.top + (other_m - pane.low) * fit.px_per_m];
}

/** An interval of that length about the middle of an extent. */
function around([low, high]: [number, number], length: number): [number, number] {
    return [(low + high - length) / 2, (low + high + length) / 2];
}

function extentOf(positions: Float32Array, coordinate: number): [number, number] | null {
    let [low, high] = [Infinity, -Infinity];
    for (let i = coordinate; i < positions.length; i += 3) {
        if (Number.isNaN(positions[i])) continue;
        low = Math.min(low, positions[i]);
        high = Math.max(high, positions[i]);
    }
    return low <= high ? [low, high] : null;
}
