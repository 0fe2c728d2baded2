// SPDX-License-Identifier: GPL-3.0-or-later
// Axes are long and hardly ever change, so each gets a number, and a page gets it once.
import type { Axis } from "../shared/protocol.js";

const KEPT = 64;
let last = 0; // of all tables, because a page stores the axes of all daemons in one map

export class AxesTable {
    private known = new Map<string, { id: number; axes: Axis[] }>();

    number(axes: Axis[]): { id: number; axes: Axis[] } {
        const key = JSON.stringify(axes);
        let found = this.known.get(key);
        if (!found) {
            if (this.known.size >= KEPT) this.known.delete(this.known.keys().next().value!);
            found = { id: ++last, axes };
            this.known.set(key, found);
        }
        return found;
    }
}
