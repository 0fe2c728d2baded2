// SPDX-License-Identifier: GPL-3.0-or-later
// The array's heading, and what to say while it is not told: what is true by the last one is grey.
import type { RowHeader } from "../shared/frames.js";
import { formatBearing } from "./bearing.js";
import { duration, utcTime } from "./format.js";
import type { Row } from "./record.js";

export interface Heading {
    deg: number;
    utc_ms: number; // of the window that had it
}

/** The newest window should have a heading and has none. */
export function isStale(row: Row | undefined): boolean {
    return row?.header.flags.includes("heading_stale") ?? false;
}

/** A header that lacks the heading of its time, with the last one. */
export function withHeading(header: RowHeader, last: Heading | null): RowHeader {
    return header.flags.includes("heading_stale") && last ? { ...header, heading_deg: last.deg } : header;
}

/** What the watch-keeper has to know then; empty while all is well. */
export function headingText(row: Row | undefined, last: Heading | null): string {
    if (!row || !isStale(row)) return "";
    const relative = "Bearings are those of the array";
    if (!last) return `NO HEADING YET. ${relative}`;
    const age = duration((row.utc_ms - last.utc_ms) / 1000);
    return `NO HEADING FOR ${age}. ${relative}; grey ones are true by the last heading, ${formatBearing(last.deg)} at ${utcTime(last.utc_ms)}Z`;
}
