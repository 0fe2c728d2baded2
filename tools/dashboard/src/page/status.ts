// SPDX-License-Identifier: GPL-3.0-or-later
// The status message, as docs/reading.md describes it. Every part may be missing: an older daemon has fewer.
import type { RowHeader } from "../shared/frames.js";
import { utcTime } from "./format.js";
import type { Store } from "./store.js";

export interface Spread {
    p50_us: number | null;
    p99_us: number | null;
    max_us: number | null;
    mean_us?: number | null; // of the latency and of its parts
}

export interface Faults {
    count: number;
    sensors: [number, number][];
    channels: [number, number][];
}

/** State of the hydrophone that a channel feeds. */
export interface ElementState {
    fault: string | null; // the worst one
    masked: "by hand" | "automatically" | null;
}

/** Worst first. */
export const FAULTS = ["dead", "stuck", "clipped", "noisy", "hum", "identical"] as const;

type Counts = Record<string, number>;

export interface Status extends RowHeader {
    health: string;
    text: string;
    conditions?: { code: string; severity: string; text: string; for_s: number }[];
    elements?: { judged: number; masked: number } & Record<string, Faults | number>;
    backend_text?: string;
    uptime_s?: number;
    load?: number;
    frames?: { received: number; accepted: number; dropped: Counts; sequence_gaps: number };
    stream?: Record<string, number | null>;
    blocks?: Counts;
    samples?: Counts;
    windows?: { offered: number; taken: number; processed: number; failed: number; dropped: Counts };
    output?: { messages_sent: number; messages_failed: number; subscriptions: number; results_dropped: number; wanted: string[] };
    latency?: Spread;
    latency_parts?: Record<string, Spread>;
    stage_us?: Record<string, number | null>;
    resident_bytes?: number;
}

export function statusOf(store: Store): Status | null {
    return (store.status?.header as Status | undefined) ?? null;
}

/** What was lost since the daemon started, by cause; only causes that occurred. */
export function lossesOf(status: Status): [string, number][] {
    const all: [string, number | undefined][] = [
        ...Object.entries(status.frames?.dropped ?? {}).map(([c, n]): [string, number] => [`frames ${c}`, n]),
        ["frames never come (sequence gaps)", status.frames?.sequence_gaps],
        ...Object.entries(status.windows?.dropped ?? {}).map(([c, n]): [string, number] => [`windows ${c}`, n]),
        ["windows failed", status.windows?.failed],
        ["results dropped before sending", status.output?.results_dropped],
        ["messages not sent", status.output?.messages_failed],
    ];
    return all.filter((pair): pair is [string, number] => (pair[1] ?? 0) > 0).map(([c, n]) => [c.replace(/_/g, " "), n]);
}

const RECENT_MS = 60_000;

/** When losses were last seen to increase. For losses before the first status of a run only that is known. */
export class Losses {
    private run = "";
    private total = 0;
    private first_ms = 0; // of the first status
    private newest_ms = 0;
    private grown_ms: number | null = null;

    clear(): void {
        this.run = "";
    }

    take(status: Status, utc_ms: number): void {
        const total = lossesOf(status).reduce((sum, [, n]) => sum + n, 0);
        if (status.run !== this.run) Object.assign(this, { run: status.run, first_ms: utc_ms, grown_ms: null });
        else if (total > this.total) this.grown_ms = utc_ms;
        this.total = total;
        this.newest_ms = utc_ms;
    }

    /** True if something was lost within the last minute. */
    get recent(): boolean {
        return this.grown_ms !== null && this.newest_ms - this.grown_ms < RECENT_MS;
    }

    /** Empty if nothing was lost. */
    get when(): string {
        if (this.total === 0) return "";
        return this.grown_ms === null ? `before ${utcTime(this.first_ms)}Z` : `last ${utcTime(this.grown_ms)}Z`;
    }
}

/** State by channel. `complete` is false if the daemon lists only the first ranges of a longer list. */
export function elementStates(status: Status | null, channels: number): { states: ElementState[]; complete: boolean } {
    const states = Array.from({ length: channels }, (): ElementState => ({ fault: null, masked: null }));
    const lists = (status?.elements ?? {}) as Record<string, Faults | undefined>;
    let complete = true;
    const each = (name: string, mark: (state: ElementState) => void) => {
        const list = lists[name];
        let named = 0;
        for (const [first, last] of list?.channels ?? []) {
            named += last - first + 1;
            states.slice(first, last + 1).forEach(mark);
        }
        if (named < (list?.count ?? 0)) complete = false;
    };
    for (const name of [...FAULTS].reverse()) each(name, (state) => (state.fault = name));
    each("masked_auto", (state) => (state.masked = "automatically"));
    each("masked_hand", (state) => (state.masked = "by hand"));
    return { states, complete };
}
