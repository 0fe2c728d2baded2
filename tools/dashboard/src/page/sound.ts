// SPDX-License-Identifier: GPL-3.0-or-later
// From the time series of a beam to sound: what is played of each message, and when.

export const BEAMS = "beam.audio";

const LOWEST_HZ = 8000; // browsers must play 8 to 96 kHz
const HIGHEST_HZ = 96_000;
const OFFSET_S = 0.02; // time constant of the filter that removes the hydrophones' offset
const FALL_S = 10; // time in which the loudest sample so far counts e times less
const FULL = 0.5; // what the loudest sample becomes

export interface Piece {
    samples: Float32Array;
    rate_hz: number;
}

/** One beam's stream. The loudness follows the loudest sample of the last seconds, so that it does not jump. */
export class Sound {
    private last = NaN; // sample before, as received
    private flat = 0; // and without offset
    private out = 0; // and as played
    private loudest = 0;
    private gain = 0;

    /** What is missing is silent, and the filter begins again behind it. */
    take(series: Float32Array, fs_hz: number): Piece {
        const samples = this.flatten(series, fs_hz);
        const peak = samples.reduce((most, x) => Math.max(most, Math.abs(x)), 0);
        this.loudest = Math.max(peak, this.loudest * Math.exp(-series.length / fs_hz / FALL_S));
        const before = this.gain;
        this.gain = this.loudest > 0 ? FULL / this.loudest : 0;
        const rise = before > 0 ? this.gain - before : 0;
        for (let i = 0; i < samples.length; i++) samples[i] *= this.gain - rise * (1 - (i + 1) / samples.length);
        return this.fit(samples, fs_hz);
    }

    private flatten(series: Float32Array, fs_hz: number): Float32Array {
        const keep = Math.exp(-1 / (OFFSET_S * fs_hz));
        return series.map((x) => {
            this.flat = Number.isFinite(x) && Number.isFinite(this.last) ? keep * (this.flat + x - this.last) : 0;
            this.last = x;
            return this.flat;
        });
    }

    /** To a rate that every browser plays: between slow samples straight lines, of fast ones the means of several. */
    private fit(samples: Float32Array, fs_hz: number): Piece {
        const more = Math.ceil(LOWEST_HZ / fs_hz);
        const fewer = Math.ceil(fs_hz / HIGHEST_HZ);
        const made = new Float32Array(Math.floor((samples.length * more) / fewer));
        for (let i = 0; i < made.length; i++) {
            if (fewer > 1) {
                for (let k = 0; k < fewer; k++) made[i] += samples[fewer * i + k] / fewer;
                continue;
            }
            const at = Math.floor(i / more);
            const before = at > 0 ? samples[at - 1] : this.out;
            made[i] = before + ((samples[at] - before) * ((i % more) + 1)) / more;
        }
        this.out = samples.length ? samples[samples.length - 1] : this.out;
        return { samples: made, rate_hz: (fs_hz * more) / fewer };
    }
}

const DELAY_S = 0.3; // sound waits for messages that are late by less
const AHEAD_S = 1.5; // what would be later than this is skipped: sound would stay late for as long as one listens

/** When the messages of a stream are played, on the clock of the sound card. That clock is another than the daemon's,
 * and it stands still while the browser gets no processor. */
export class Playout {
    stalls = 0; // number of times that sound had to wait for a message
    skips = 0; // and that messages were skipped, because sound was too late
    private next: number | null = null; // the sample that belongs at end_s; null: what comes begins a stream
    private end_s = 0; // of what is to be played

    /** The time at which `count` samples from `sample` on are to begin; null: they are not played. */
    place(now_s: number, sample: number, count: number, fs_hz: number): number | null {
        if (this.next === null && this.end_s > now_s + DELAY_S) return null;
        let at_s = this.end_s + (sample - (this.next ?? sample)) / fs_hz;
        if (this.next === null || sample < this.next) at_s = now_s + DELAY_S; // another stream
        else if (at_s < now_s) {
            this.stalls++;
            at_s = now_s + DELAY_S;
        } else if (at_s > now_s + AHEAD_S) {
            this.skips++;
            this.next = null;
            return null;
        }
        this.end_s = at_s + count / fs_hz;
        this.next = sample + count;
        return at_s;
    }

    /** How far the sound is ahead of the sound card. */
    ahead_s(now_s: number): number {
        return Math.max(0, this.end_s - now_s);
    }
}
