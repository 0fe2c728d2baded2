// SPDX-License-Identifier: GPL-3.0-or-later
// The last messages of a topic, bounded in time and in bytes. Every page reads it with its own cursor, so it also
// serves as the queue of every page.
import type { RowHeader } from "../shared/frames.js";
import type { Axis } from "../shared/protocol.js";

export interface Entry {
    header: RowHeader;
    axes: { id: number; axes: Axis[] };
    data: Float32Array;
    packed?: Uint16Array; // for a surface, instead of `data`
    received_ms: number; // on the monotonic clock
}

const HEADER_BYTES = 2000; // approximate size of a parsed header without its axes and lists
const LISTED_BYTES = 1000; // and of each object in its lists, such as a detection or a track

export class History {
    private entries: Entry[] = [];
    private dropped = 0; // entries that were deleted
    private bytes = 0;

    constructor(
        private readonly keep_ms: number,
        private readonly keep_bytes: number,
    ) {}

    /** Number of the oldest entry that is kept. */
    get first(): number {
        return this.dropped;
    }

    /** Number that the next entry will have. */
    get next(): number {
        return this.dropped + this.entries.length;
    }

    at(number: number): Entry {
        return this.entries[number - this.dropped];
    }

    /** The newest entry is kept even if it alone exceeds the limit. */
    push(entry: Entry): void {
        this.entries.push(entry);
        this.bytes += size(entry);
        let old = 0;
        while (old < this.entries.length - 1 && this.isOver(this.entries[old], entry.received_ms))
            this.bytes -= size(this.entries[old++]);
        if (old === 0) return;
        this.entries.splice(0, old);
        this.dropped += old;
    }

    clear(): void {
        this.dropped += this.entries.length;
        this.entries = [];
        this.bytes = 0;
    }

    private isOver(entry: Entry, now_ms: number): boolean {
        return this.bytes > this.keep_bytes || now_ms - entry.received_ms > this.keep_ms;
    }
}

function size(entry: Entry): number {
    const { detections, tracks } = entry.header;
    const listed = (detections?.length ?? 0) + (tracks?.length ?? 0);
    return entry.data.byteLength + (entry.packed?.byteLength ?? 0) + HEADER_BYTES + LISTED_BYTES * listed;
}
