// SPDX-License-Identifier: GPL-3.0-or-later
// What the user looks at: the part of the record that is shown, and the cursor. All panels of a record share it.
import type { Extent } from "./columns.js";
import type { Record, Row } from "./record.js";

export interface Frozen {
    top_ms: number;
    rows: Map<Record, readonly Row[]>; // a copy of each record's rows, which keeps rows that are deleted meanwhile
}

export class Sight {
    shown: Extent | null = null; // null: the whole extent
    frozen: Frozen | null = null;
    cursor: { x: number; utc_ms: number } | null = null; // x on the panel's axis
    version = 0;

    changed(): void {
        this.version++;
    }

    /** Zooms by a factor about x, within `whole`. */
    zoom(whole: Extent, x: number, factor: number): void {
        const { low, high } = this.shown ?? whole;
        const width = Math.max((whole.high - whole.low) / 500, (high - low) * factor);
        if (width >= whole.high - whole.low) this.shown = null;
        else this.move(whole, x - ((x - low) / (high - low)) * width, width);
        this.changed();
    }

    pan(whole: Extent, by: number): void {
        if (!this.shown) return;
        this.move(whole, this.shown.low + by, this.shown.high - this.shown.low);
        this.changed();
    }

    private move(whole: Extent, low: number, width: number): void {
        const kept = Math.max(whole.low, Math.min(whole.high - width, low));
        this.shown = { low: kept, high: kept + width };
    }
}
