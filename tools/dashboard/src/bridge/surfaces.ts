// SPDX-License-Identifier: GPL-3.0-or-later
// Surfaces as the history stores them: levels of 16 bits, averaged over as many windows as needed for the whole
// history to fit into its memory.
import type { RowHeader } from "../shared/frames.js";

const STEPS = 448; // steps per octave of power: levels are exact to 0.004 dB
const LOWEST = -40; // octaves: values from 2^-40 to 2^106 can be represented; 0 is no power

export function pack(power: Float32Array): Uint16Array {
    return Uint16Array.from(power, (p) => (p > 0 ? Math.max(1, Math.min(65_535, 1 + Math.round(STEPS * (Math.log2(p) - LOWEST)))) : 0));
}

export function unpack(level: number): number {
    return level === 0 ? 0 : 2 ** ((level - 1) / STEPS + LOWEST);
}

export interface Mean {
    header: RowHeader; // header of its first window, with the number of windows
    data: Float32Array;
}

/** Averages consecutive windows. */
export class Integrator {
    private stream = "";
    private hop = Infinity; // in samples
    private windows = 1; // number of windows in a mean
    private sum: Mean | null = null;
    private newest: RowHeader | null = null;

    constructor(
        private readonly keep_ms: number,
        private readonly keep_bytes: number,
    ) {}

    clear(): void {
        this.sum = this.newest = null;
    }

    /** Adds a window and returns the means that it completes. The first window waits for the second, from which the hop
     * follows. */
    add(header: RowHeader, data: Float32Array): Mean[] {
        const stream = [header.run, header.epoch, header.config_version, header.window_length, header.shape].join(" ");
        const done: Mean[] = [];
        if (stream !== this.stream) {
            done.push(...this.finish());
            this.hop = Infinity;
            this.newest = null;
        }
        this.stream = stream;
        this.learnHop(header, data);
        const first = this.sum?.header;
        if (first && Number(header.window) >= Number(first.window) + this.windows) done.push(...this.finish());
        if (this.sum) this.take(header, data);
        else this.sum = { header: { ...header, integrated: 1 }, data: data.slice() };
        const complete = this.hop < Infinity && Number(header.window) + 1 >= Number(this.sum!.header.window) + this.windows;
        return complete ? [...done, ...this.finish()] : done;
    }

    /** The hop is the shortest distance between two windows; longer ones are gaps. */
    private learnHop(header: RowHeader, data: Float32Array): void {
        const hop = (header.sample_index ?? 0) - (this.newest?.sample_index ?? Infinity);
        this.newest = header;
        if (!(hop > 0 && hop < this.hop)) return;
        this.hop = hop;
        const windows = (this.keep_ms / 1000) * (header.fs_hz / hop);
        this.windows = Math.max(1, Math.ceil((windows * data.length * Uint16Array.BYTES_PER_ELEMENT) / this.keep_bytes));
    }

    private take(header: RowHeader, data: Float32Array): void {
        const sum = this.sum!;
        sum.header.integrated!++;
        sum.header.flags = [...new Set([...sum.header.flags, ...header.flags])];
        for (let i = 0; i < data.length; i++) sum.data[i] += data[i];
    }

    private finish(): Mean[] {
        if (!this.sum) return [];
        const { header, data } = this.sum;
        this.sum = null;
        if (header.integrated! > 1) for (let i = 0; i < data.length; i++) data[i] /= header.integrated!;
        return [{ header, data }];
    }
}
