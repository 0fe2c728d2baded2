// SPDX-License-Identifier: GPL-3.0-or-later
// The rows of one topic in the order of their time, and where rows are missing between them.
import type { RowHeader } from "../shared/frames.js";
import { axisValues, type Axis, type Detection } from "../shared/protocol.js";
import type { Traces } from "./tracks.js";

/** The axis along a row, shared by all rows that have it. */
export interface RowAxis {
    name: string;
    unit: string | null;
    values: Float64Array;
    circular: boolean; // the last value is followed by the first
}

export interface Row {
    utc_ms: number; // of the window's first sample, or of its arrival if the digitiser knows no UTC
    span_ms: number; // until the next window begins; at first the window's own length
    header: RowHeader;
    axis: RowAxis;
    data: Float32Array; // power
    arrived_ms: number; // at the bridge, on this page's clock
    az_deg: number | null; // for a row of a lofargram
    marks: Detection[];
    traces: Traces; // of the tracks in this window
}

/** How long after a row the next one may arrive. */
export function patience_ms(row: Row): number {
    return Math.max(3000, 2 * row.span_ms);
}

/** Why a record was restarted: earlier rows cannot be shown on the axis of later ones. */
export type Reason = "array" | "run" | "axis";

export class Record {
    rows: Row[] = [];
    /** The newest restart; null: the record began with the page, the daemon or a direction. */
    restart: { why: Reason; utc_ms: number } | null = null;
    /** Changes with every change of the rows. */
    version = 0;
    private hop_ms = Infinity;

    constructor(public keep_ms: number) {}

    get last(): Row | undefined {
        return this.rows[this.rows.length - 1];
    }

    clear(): void {
        this.rows = [];
        this.restart = null;
        this.version++;
    }

    /** A row that is older than the present ones replaces them, because its timeline has restarted. A row of another
     * array, run or axis starts a new record. */
    push(row: Row): void {
        const why = this.last && reasonOf(this.last, row);
        if (why) {
            this.clear();
            this.restart = { why, utc_ms: row.utc_ms };
        }
        const before = this.last;
        if (before && before.utc_ms >= row.utc_ms) this.rows.length = lowerBound(this.rows, row.utc_ms);
        else if (before) this.fitSpans(before, row);
        this.rows.push(row);
        let old = 0;
        while (this.rows[old].utc_ms < row.utc_ms - this.keep_ms) old++;
        if (old > 0) this.rows.splice(0, old);
        this.version++;
    }

    /** The row of a window, searched from the newest row on. */
    find(run: string, window: number | null): Row | undefined {
        for (let i = this.rows.length - 1; i >= Math.max(0, this.rows.length - 64); i--) {
            const { header } = this.rows[i];
            if (header.run === run && header.window === window) return this.rows[i];
        }
        return undefined;
    }

    /**
     * No header has the hop; it is the shortest distance between two rows of one configuration. Longer distances are
     * gaps, even if the window's index increases by one, because windows that were never offered have no index.
     */
    private fitSpans(before: Row, row: Row): void {
        const [a, b] = [before.header, row.header];
        const streams = [a, b].map((h) => `${h.run} ${h.config_version} ${h.window_length}`);
        if (streams[0] !== streams[1]) this.hop_ms = Infinity;
        const samples = (b.sample_index ?? 0) - (a.sample_index ?? 0);
        const hop_ms = streams[0] === streams[1] && a.epoch === b.epoch && samples > 0 ? (1000 * samples) / b.fs_hz : Infinity;
        if (hop_ms < this.hop_ms) {
            this.hop_ms = hop_ms;
            for (const earlier of this.rows) if (earlier.header.run === b.run) earlier.span_ms = hop_ms;
        }
        if (this.hop_ms < Infinity) row.span_ms = this.hop_ms;
    }
}

/** Why two rows belong to different records, or null. An axis that the daemon turns to true bearings, or back when the
 * heading is lost, belongs to the same array, so its rows stay in one record. */
function reasonOf(before: Row, row: Row): Reason | null {
    const [a, b] = [before.header, row.header];
    if (a.array !== b.array) return "array";
    if (a.run !== b.run) return "run";
    return a.bearing_reference === b.bearing_reference && !isSameAxis(before.axis, row.axis) ? "axis" : null;
}

function isSameAxis(a: RowAxis, b: RowAxis): boolean {
    if (a === b) return true;
    return a.name === b.name && a.unit === b.unit && a.values.length === b.values.length && a.values.every((value, i) => value === b.values[i]);
}

export function makeAxis(axis: Axis, count: number): RowAxis {
    const values = axisValues(axis, count);
    const step = count > 1 ? (values[count - 1] - values[0]) / (count - 1) : 360;
    const circular = axis.name === "azimuth" && Math.abs(values[count - 1] + step - values[0] - 360) < step / 2;
    return { name: axis.name, unit: axis.unit, values, circular };
}

/** False if another topic has continued without this one. */
export function isCurrent(row: Row, newest: Row): boolean {
    return row.header.run === newest.header.run && newest.utc_ms - row.utc_ms <= patience_ms(newest);
}

/** True if no window is missing between two rows. */
export function follows(before: Row, row: Row): boolean {
    return before.header.run === row.header.run && row.utc_ms - before.utc_ms < 1.5 * before.span_ms;
}

/** Index of the first row that begins at or after a time. */
export function lowerBound(rows: readonly Row[], utc_ms: number): number {
    let low = 0;
    let high = rows.length;
    while (low < high) {
        const middle = (low + high) >> 1;
        if (rows[middle].utc_ms < utc_ms) low = middle + 1;
        else high = middle;
    }
    return low;
}

export interface Stretch {
    first: number; // indices of the rows in it
    last: number;
    /** Whether a part of the stretch, or all of it, was never received. */
    missing: "nothing" | "some" | "all";
}

/**
 * The rows between two times: those that begin in it, or the one that covers its middle. Rows are expected up to
 * due_ms. Null: no row is expected, because the time is before the first row or after due_ms.
 */
export function stretchOf(rows: readonly Row[], from_ms: number, to_ms: number, due_ms: number): Stretch | null {
    if (rows.length === 0 || to_ms <= rows[0].utc_ms) return null;
    let first = lowerBound(rows, from_ms);
    let last = lowerBound(rows, to_ms) - 1;
    if (first > last && first > 0 && (from_ms + to_ms) / 2 < endOf(rows, first - 1)) first = last = first - 1;
    const hole = hasHole(rows, from_ms, to_ms, due_ms);
    if (first <= last) return { first, last, missing: hole ? "some" : "nothing" };
    return hole ? { first, last, missing: "all" } : null;
}

/** A row extends to the next one, unless more than half a hop is missing between them. */
function endOf(rows: readonly Row[], i: number): number {
    const end = rows[i].utc_ms + rows[i].span_ms;
    const next = rows[i + 1];
    return next && next.utc_ms - end < rows[i].span_ms / 2 ? next.utc_ms : end;
}

function hasHole(rows: readonly Row[], from_ms: number, to_ms: number, due_ms: number): boolean {
    for (let i = Math.max(0, lowerBound(rows, from_ms) - 1); i < rows.length; i++) {
        const end = endOf(rows, i);
        if (end >= to_ms) return false;
        const next = rows[i + 1]?.utc_ms ?? due_ms;
        if (next > end && next > from_ms) return true;
    }
    return false;
}
