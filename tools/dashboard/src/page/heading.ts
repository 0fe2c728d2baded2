// SPDX-License-Identifier: GPL-3.0-or-later
// The array's heading, and the warning while none is received: bearings that are true by the last heading are grey.
import type { RowHeader } from "../shared/frames.js";
import { formatBearing } from "./bearing.js";
import { duration, utcTime } from "./format.js";
import type { Row } from "./record.js";

export interface Heading {
    deg: number;
    utc_ms: number; // of its window
}

/** True if the newest window should have a heading and has none. */
export function isStale(row: Row | undefined): boolean {
    return row?.header.flags.includes("heading_stale") ?? false;
}

/** A header without a current heading, completed with the last heading. */
export function withHeading(header: RowHeader, last: Heading | null): RowHeader {
    return header.flags.includes("heading_stale") && last ? { ...header, heading_deg: last.deg } : header;
}

/** The warning for the watch-keeper; empty if everything is normal. */
export function headingText(row: Row | undefined, last: Heading | null): string {
    if (!row || !isStale(row)) return "";
    const relative = "Bearings are relative to the array";
    if (!last) return `NO HEADING YET. ${relative}`;
    const age = duration((row.utc_ms - last.utc_ms) / 1000);
    return `NO HEADING FOR ${age}. ${relative}; grey ones are true by the last heading, ${formatBearing(last.deg)} at ${utcTime(last.utc_ms)}Z`;
}
