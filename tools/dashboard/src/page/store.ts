// SPDX-License-Identifier: GPL-3.0-or-later
// What the page knows of the daemon that it shows.
import type { RowHeader, SourceState, ToPage } from "../shared/frames.js";
import type { Axis, Detection, Track } from "../shared/protocol.js";
import { Contacts } from "./contacts.js";
import type { Heading } from "./heading.js";
import { RATIO_TOPICS } from "./kinds.js";
import { BEAMS } from "./sound.js";
import { MUSIC } from "./music.js";
import { Losses, type Status } from "./status.js";
import { makeAxis, Record, type Row, type RowAxis } from "./record.js";
import { NO_TRACES, Tracks, tracesOf, type Traces } from "./tracks.js";

export interface Latest {
    header: RowHeader;
    axes: Axis[];
    data: Float32Array;
    arrived_ms: number;
}

const ALWAYS = ["status", "detections", "tracks", "cbf.azimuth", "mvdr.azimuth"]; // always sent, whatever the page shows
const MARKS_KEPT = 30_000; // windows; kept at most as long as rows
const AXES_KEPT = 300; // more than the bridge remembers

/** What a window's rows get from other messages. */
interface Marks {
    utc_ms: number;
    detections: Detection[];
    traces: Traces;
}

/** Which messages of a topic are new: the bridge repeats its history for each connection. */
class News {
    private known_ms = -Infinity; // messages up to this time are repeated
    private heard_ms = -Infinity; // time of the newest message

    repeat(): void {
        this.known_ms = this.heard_ms;
    }

    isNew(utc_ms: number): boolean {
        if (utc_ms <= this.known_ms) return false;
        this.known_ms = -Infinity;
        this.heard_ms = utc_ms;
        return true;
    }

    clear(): void {
        this.known_ms = this.heard_ms = -Infinity;
    }
}

export class Store {
    sources: SourceState[] = [];
    selected = 0;
    readonly cbf = new Record(600_000);
    readonly mvdr = new Record(600_000);
    /** By topic: what the page may show in place of the power. They have rows only while it wants them. */
    readonly ratios = new Map(RATIO_TOPICS.map((topic) => [topic, new Record(600_000)]));
    readonly lofar = new Record(600_000);
    readonly music = new Record(0); // only the newest row
    readonly contacts = new Contacts();
    readonly tracks = new Tracks();
    /** The newest message of each topic. */
    readonly latest = new Map<string, Latest>();
    /** When the last status that was not a repeat was made, on this page's clock. */
    status_ms: number | null = null;
    /** Rows that the bridge omitted because this page was too slow. */
    dropped = 0;
    dropped_ms = -Infinity;
    /** Is given each message of beam.audio; null: nothing listens. */
    heard: ((latest: Latest) => void) | null = null;
    followed: number | null = null; // id of a contact
    track: number | null = null; // number of the followed track; either this or `followed` is null
    /** From the newest window that had one. */
    heading: Heading | null = null;
    version = 0;
    /** By run and window, oldest first, for rows that arrive after them. */
    private marks = new Map<string, Marks>();
    private news = { detections: new News(), tracks: new News() };
    private contactsOf = ""; // array and run
    private tracksOf = { array: "", run: "" };
    /** The daemon's clock minus this page's; null before its first status. */
    private ahead_ms: number | null = null;
    readonly losses = new Losses();
    private axes = new Map<number, { axes: Axis[]; made: RowAxis | null }>();

    get status(): Latest | undefined {
        return this.latest.get("status");
    }

    /** All records over the azimuth. */
    get spectra(): Record[] {
        return [this.cbf, this.mvdr, ...this.ratios.values()];
    }

    /** The newest power spectrum of either beamformer. */
    get newest(): Row | undefined {
        const [a, b] = [this.cbf.last, this.mvdr.last];
        return !a || (b && b.arrived_ms > a.arrived_ms) ? b : a;
    }

    /**
     * Time since the end of the newest spectrum's window, by the daemon's clock; or since its arrival, if that is
     * longer or UTC is unknown. Null: no spectrum.
     */
    dataAge_ms(now_ms: number): number | null {
        const row = this.newest;
        if (!row) return null;
        const since_ms = now_ms - row.arrived_ms;
        const { utc_ns, window_length, fs_hz } = row.header;
        if (utc_ns === null || this.ahead_ms === null) return since_ms;
        return Math.max(since_ms, now_ms + this.ahead_ms - utc_ns / 1e6 - (1000 * (window_length ?? 0)) / fs_hz);
    }

    take(frame: ToPage, data: Float32Array): void {
        this.version++;
        switch (frame.type) {
            case "hello":
                for (const record of [...this.spectra, this.lofar]) record.keep_ms = 1000 * frame.history_s;
                this.axes.clear();
                this.sources = frame.sources;
                break;
            case "sources":
                this.sources = frame.sources;
                break;
            case "axes":
                if (this.axes.size > AXES_KEPT) this.axes.delete(this.axes.keys().next().value!);
                this.axes.set(frame.id, { axes: frame.axes, made: null });
                break;
            case "begin":
                this.begin(frame.topic);
                break;
            case "dropped":
                this.dropped += frame.rows;
                this.dropped_ms = performance.now();
                break;
            case "row":
                if (frame.source === this.selected) this.takeRow(frame, data);
        }
    }

    /** Another daemon: data of the previous one must not be taken for its data. */
    select(source: number): void {
        this.selected = source;
        for (const record of [...this.spectra, this.lofar, this.music]) record.clear();
        this.contacts.clear();
        this.tracks.clear();
        this.marks.clear();
        for (const news of Object.values(this.news)) news.clear();
        this.latest.clear();
        this.status_ms = this.ahead_ms = null;
        this.losses.clear();
        this.contactsOf = "";
        this.followed = this.track = null;
        this.heading = null;
        this.version++;
    }

    /** The spectra's rows stay: new ones replace equal ones, and a bridge that was restarted has fewer rows than this
     * page. For other topics that are sent only while shown, old rows are deleted. */
    private begin(topic: string): void {
        if (topic === "detections" || topic === "tracks") this.news[topic].repeat();
        if (ALWAYS.includes(topic) || this.ratios.has(topic)) return;
        this.latest.delete(topic);
        this.recordOf(topic)?.clear();
    }

    recordOf(topic: string): Record | null {
        if (topic === "cbf.azimuth") return this.cbf;
        if (topic === "mvdr.azimuth") return this.mvdr;
        if (topic === MUSIC) return this.music;
        if (topic === "cbf.lofar" || topic === "mvdr.spectrum") return this.lofar;
        return this.ratios.get(topic) ?? null;
    }

    private takeRow(frame: Extract<ToPage, { type: "row" }>, data: Float32Array): void {
        const known = this.axes.get(frame.axes);
        if (!known) return;
        const { header } = frame;
        const arrived_ms = performance.now() - frame.age_ms;
        const latest = { header, axes: known.axes, data, arrived_ms };
        if (header.topic === BEAMS && !this.heard) return; // sent before the bridge knew that nothing listens
        this.latest.set(header.topic, latest);
        if (header.topic === BEAMS) this.heard?.(latest);
        const record = this.recordOf(header.topic);
        if (record) this.push(record, this.rowOf(frame, data, known, arrived_ms));
        if (record && header.heading_deg !== null) this.keepHeading(header.heading_deg, utcOf(header, arrived_ms));
        if (header.topic === "status" && !header.flags.includes("repeat")) this.takeStatus(header, arrived_ms);
        if (header.topic === "detections") this.takeDetections(header, header.detections ?? [], arrived_ms);
        if (header.topic === "tracks") this.takeTracks(header, header.tracks ?? [], arrived_ms);
    }

    /** The heading of another run may belong to another array. */
    private push(record: Record, row: Row): void {
        const { restart } = record;
        record.push(row);
        if (record.restart && record.restart !== restart && record.restart.why !== "axis") this.heading = null;
    }

    private takeStatus(header: RowHeader, arrived_ms: number): void {
        this.status_ms = arrived_ms;
        if (header.utc_ns !== null) this.ahead_ms = header.utc_ns / 1e6 - arrived_ms;
        this.losses.take(header as Status, utcOf(header, arrived_ms));
    }

    private rowOf(
        frame: Extract<ToPage, { type: "row" }>,
        data: Float32Array,
        known: { axes: Axis[]; made: RowAxis | null },
        arrived_ms: number,
    ): Row {
        const { header } = frame;
        const axis = (known.made ??= makeAxis(known.axes[0], data.length));
        const { detections, traces } = this.marksOf(header);
        return {
            utc_ms: utcOf(header, arrived_ms),
            span_ms: (1000 * (header.window_length ?? header.fs_hz)) / header.fs_hz,
            header,
            axis,
            data,
            arrived_ms,
            az_deg: frame.az_deg ?? null,
            marks: detections.filter((d) => header.topic.startsWith(d.source)),
            traces,
        };
    }

    private takeDetections(header: RowHeader, detections: Detection[], arrived_ms: number): void {
        const utc_ms = utcOf(header, arrived_ms);
        this.keepMarks(windowKey(header), utc_ms, { detections });
        for (const record of this.spectra) {
            const row = record.find(header.run, header.window);
            if (row) row.marks = detections.filter((d) => row.header.topic.startsWith(d.source));
        }
        if (!this.news.detections.isNew(utc_ms)) return;
        const of = `${header.array} ${header.run}`;
        if (of !== this.contactsOf) {
            this.contacts.clear();
            this.followed = null;
        }
        this.contactsOf = of;
        this.contacts.update(detections, utc_ms, header);
    }

    private takeTracks(header: RowHeader, tracks: Track[], arrived_ms: number): void {
        const utc_ms = utcOf(header, arrived_ms);
        const traces = tracesOf(tracks, header);
        this.keepMarks(windowKey(header), utc_ms, { traces });
        for (const record of this.spectra) {
            const row = record.find(header.run, header.window);
            if (row) row.traces = traces;
        }
        if (!this.news.tracks.isNew(utc_ms)) return;
        const { array, run } = this.tracksOf;
        if (array !== header.array || run !== header.run) {
            if (array !== header.array || !this.goesOn(tracks, utc_ms)) this.track = null;
            this.tracks.clear();
            this.tracksOf = { array: header.array, run: header.run };
        }
        this.tracks.update(tracks, utc_ms, header, this.cbf.keep_ms);
    }

    /** True if another run's tracks have the followed one: it began before its last window in the run before. */
    private goesOn(tracks: Track[], utc_ms: number): boolean {
        const before = this.tracks.find(this.track);
        return tracks.some((t) => before && t.number === this.track && 1000 * t.age_s > utc_ms - before.last_ms);
    }

    /** Topics of a window have headings of different moments; the newest one counts. */
    private keepHeading(deg: number, utc_ms: number): void {
        if (!this.heading || utc_ms >= this.heading.utc_ms) this.heading = { deg, utc_ms };
    }

    private keepMarks(key: string, utc_ms: number, change: Partial<Marks>): void {
        this.marks.set(key, { detections: [], traces: NO_TRACES, ...this.marks.get(key), utc_ms, ...change });
        for (const [old, mark] of this.marks) {
            if (this.marks.size <= MARKS_KEPT && mark.utc_ms >= utc_ms - this.cbf.keep_ms) break;
            this.marks.delete(old);
        }
    }

    private marksOf(header: RowHeader): Omit<Marks, "utc_ms"> {
        return this.marks.get(windowKey(header)) ?? { detections: [], traces: NO_TRACES };
    }
}

function windowKey(header: RowHeader): string {
    return `${header.run} ${header.window}`;
}

/** UTC of a window's first sample, or of its arrival if the digitiser knows no UTC. */
function utcOf(header: RowHeader, arrived_ms: number): number {
    return header.utc_ns !== null ? header.utc_ns / 1e6 : performance.timeOrigin + arrived_ms;
}
