// SPDX-License-Identifier: GPL-3.0-or-later
// The near field: power over range and bearing of the newest window, with its peak.
import { angleTitle, bearingsOf, formatBearing, hasTrue, isTrue } from "../bearing.js";
import { EMPTY, shades, SHADES } from "../colour.js";
import { columnsOf, largest, wholeExtent, type Columns, type Extent } from "../columns.js";
import { choice, colourOf, element, fitCanvas, letter_px, setText } from "../dom.js";
import { Empty, waitingText } from "../empty.js";
import { decibels, levelText, referenceOf, ticks } from "../format.js";
import { makeAxis, type RowAxis } from "../record.js";
import { axisValues } from "../../shared/protocol.js";
import { choose, settings } from "../settings.js";
import type { Latest } from "../store.js";
import type { Context, View } from "./view.js";

const SEEN_MS = 1000; // age of contacts that are drawn
const BELOW_PEAK_DB = 30; // range of levels shown, unless it is set by hand

interface Map2 {
    latest: Latest;
    ranges: Float64Array;
    edges: Float64Array; // edges between the ranges, and beyond the first and the last
    axis: RowAxis;
    shown: Extent;
    peak: { range: number; column: number };
}

export class NearFieldView implements View {
    readonly name = "nearfield";
    readonly title = "Near field";
    readonly root: HTMLElement;
    private picture = element("canvas", { class: "picture" });
    private overlay = element("canvas", { class: "overlay" });
    private empty = new Empty();
    private field = element("div", { class: "field" }, [this.picture, this.overlay, this.empty.root]);
    private note = element("span", { class: "note" });
    private readout = element("output", { class: "readout" });
    private pick: HTMLSelectElement;
    private drawn = "";
    private map: Map2 | null = null;
    private axis: { of: Latest["axes"]; made: RowAxis } | null = null;
    private columns: Columns | null = null;
    private box = { left: 0, top: 0, width: 1, height: 1 };

    constructor(private readonly context: Context) {
        this.pick = choice("beamformer", [["cbf.nearfield", "CBF"], ["mvdr.nearfield", "MVDR"]], settings.near, (near) => choose({ near }));
        const head = element("header", {}, [element("h2", {}, ["Near field"]), this.pick, this.note]);
        this.root = element("div", { class: "view" }, [
            element("section", { class: "panel", "data-panel": "nearfield" }, [head, this.field, this.readout]),
        ]);
        this.overlay.onpointermove = (event) => this.read(event);
        this.overlay.onpointerleave = () => this.tellPeak();
    }

    wants(): string[] {
        return [settings.near];
    }

    refresh(): void {
        this.pick.value = settings.near;
        this.drawn = "";
    }

    draw(): void {
        const latest = this.context.store.latest.get(settings.near);
        const { clientWidth, clientHeight } = this.field;
        if (!latest || latest.data.length === 0) {
            this.clear();
            return;
        }
        const key = `${latest.header.topic} ${latest.header.seq} ${latest.header.run} ${clientWidth} ${clientHeight}`;
        if (key === this.drawn) return;
        this.drawn = key;
        this.empty.say("");
        this.place(clientWidth, clientHeight);
        this.map = this.mapOf(latest);
        this.paint(this.map);
        this.drawOverlay(this.map);
        this.tellPeak();
    }

    /** Clears the picture while nothing has been received; old data would be wrong. */
    private clear(): void {
        const needs = settings.near === "mvdr.nearfield" ? "mvdr.nearfield is true" : "cbf.ranges_m names ranges";
        this.empty.say(waitingText(this.context.store, settings.near, needs));
        setText(this.note, "no data yet");
        if (!this.map) return;
        this.map = null;
        this.drawn = "";
        for (const canvas of [this.picture, this.overlay]) canvas.getContext("2d")!.clearRect(0, 0, canvas.width, canvas.height);
        setText(this.readout, "");
    }

    private place(width: number, height: number): void {
        const letter = letter_px();
        this.box = { left: Math.round(5 * letter), top: Math.round(0.5 * letter), width: 0, height: 0 };
        this.box.width = Math.max(1, width - this.box.left - Math.round(0.8 * letter));
        this.box.height = Math.max(1, height - this.box.top - Math.round(3 * letter));
        this.picture.style.left = `${this.box.left}px`;
        this.picture.style.top = `${this.box.top}px`;
        fitCanvas(this.picture, this.box.width, this.box.height);
        fitCanvas(this.overlay, width, height);
    }

    private mapOf(latest: Latest): Map2 {
        const [count, directions] = latest.header.shape;
        if (this.axis?.of !== latest.axes) this.axis = { of: latest.axes, made: makeAxis(latest.axes[1], directions) };
        const axis = this.axis.made;
        const ranges = axisValues(latest.axes[0], count);
        const frame = isTrue(latest.header) ? "true" : "array";
        const shown = wholeExtent(axis, frame);
        this.columns = columnsOf(axis, latest.header, frame, shown, this.picture.width);
        let best = 0;
        latest.data.forEach((p, i) => (best = p > latest.data[best] ? i : best));
        const peak = { range: Math.floor(best / directions), column: best % directions };
        return { latest, ranges, edges: edgesOf(ranges), axis, shown, peak };
    }

    private paint({ latest, ranges, edges, peak }: Map2): void {
        const { width, height } = this.picture;
        const directions = latest.header.shape[1];
        const highest = latest.data[peak.range * directions + peak.column];
        const peak_db = highest > 0 ? decibels(highest) : 0;
        const high_db = settings.automatic ? peak_db : settings.high_db;
        const low_db = settings.automatic ? peak_db - BELOW_PEAK_DB : settings.low_db;
        const table = shades(settings.palette);
        const image = new ImageData(width, height);
        const pixels = new Uint32Array(image.data.buffer);
        for (let r = 0; r < ranges.length; r++) {
            const level = latest.data.subarray(r * directions, (r + 1) * directions).map(decibels);
            const line = new Uint32Array(width).fill(EMPTY);
            for (let x = 0; x < width; x++) {
                if (this.columns!.first[x] < 0) continue;
                const shade = Math.floor((SHADES * (largest(level, this.columns!, x).value - low_db)) / Math.max(1e-6, high_db - low_db));
                line[x] = table[Math.max(0, Math.min(SHADES - 1, shade))];
            }
            const [from, to] = [r + 1, r].map((i) => Math.round(height * (1 - placeOf(edges, edges[i]))));
            for (let y = from; y < to; y++) pixels.set(line, y * width);
        }
        this.picture.getContext("2d")!.putImageData(image, 0, 0);
        setText(this.note, `${referenceOf(latest.header.unit)} · window ${latest.header.window} · ${low_db.toFixed(0)} to ${high_db.toFixed(0)} dB`);
    }

    private drawOverlay(map: Map2): void {
        const context = this.overlay.getContext("2d")!;
        const { left, top, width, height } = this.box;
        const letter = letter_px();
        context.setTransform(devicePixelRatio, 0, 0, devicePixelRatio, 0, 0);
        context.clearRect(0, 0, this.field.clientWidth, this.field.clientHeight);
        context.font = `${0.8 * letter}px ${colourOf("--letters")}`;
        context.fillStyle = colourOf("--dim");
        this.drawRanges(context, map, letter);
        context.textAlign = "center";
        context.textBaseline = "top";
        for (const angle of ticks(map.shown.low, map.shown.high, width / (5 * letter), "deg")) {
            const x = left + ((angle - map.shown.low) / (map.shown.high - map.shown.low)) * width;
            context.fillRect(x, top + height, 1, 4);
            context.fillText(String(angle), x, top + height + 5);
        }
        const title = angleTitle(map.latest.header);
        context.fillText(`${title}; range (${map.latest.axes[0].reference ?? ""}) upwards, m`, left + width / 2, top + height + 1.6 * letter);
        this.drawPeak(context, map);
    }

    private drawRanges(context: CanvasRenderingContext2D, map: Map2, letter: number): void {
        const { left, top, height } = this.box;
        context.textAlign = "right";
        context.textBaseline = "middle";
        let last = Infinity;
        map.ranges.forEach((range) => {
            const y = top + height * (1 - placeOf(map.edges, range));
            if (last - y < 1.1 * letter) return;
            last = y;
            context.fillRect(left - 4, y, 4, 1);
            context.fillText(range < 10 ? range.toFixed(1) : range.toFixed(0), left - 6, y);
        });
    }

    private drawPeak(context: CanvasRenderingContext2D, map: Map2): void {
        const { left, top, width, height } = this.box;
        const place = (angle: number, range: number): [number, number] => [
            left + ((angle - map.shown.low) / (map.shown.high - map.shown.low)) * width,
            top + height * (1 - placeOf(map.edges, range)),
        ];
        const letter = letter_px();
        context.strokeStyle = colourOf("--follow");
        context.lineWidth = letter / 7;
        context.beginPath();
        context.arc(...place(map.axis.values[map.peak.column], map.ranges[map.peak.range]), letter / 2, 0, 2 * Math.PI);
        context.stroke();
        context.lineWidth = 1;
        context.fillStyle = "#ffffff";
        context.textAlign = "left";
        context.textBaseline = "middle";
        const named: [number, number][] = [];
        const seen_ms = this.context.store.newest!.utc_ms - SEEN_MS;
        for (const { now, last_ms } of this.context.store.contacts.list) {
            if (now.range_m === null || last_ms < seen_ms) continue;
            const [x, y] = place(now.az_deg, now.range_m);
            context.fillRect(x - 6, y, 12, 1);
            context.fillRect(x, y - 6, 1, 12);
            if (named.some(([a, b]) => Math.abs(a - x) < 4 * letter && Math.abs(b - y) < letter)) continue;
            named.push([x, y]);
            context.fillText(`${now.range_m.toFixed(0)} m`, x + 8, y);
        }
    }

    private tellPeak(): void {
        if (!this.map) return;
        const { peak } = this.map;
        setText(this.readout, `peak  ·  ${this.describe(peak.range, peak.column)}`);
    }

    private read(event: PointerEvent): void {
        if (!this.map || !this.columns) return;
        const frame = this.picture.getBoundingClientRect();
        const x = Math.floor((event.clientX - frame.left) * devicePixelRatio);
        const share = 1 - (event.clientY - frame.top) / frame.height;
        if (x < 0 || x >= this.picture.width || share < 0 || share >= 1 || this.columns.first[x] < 0) return;
        const { edges, ranges, latest } = this.map;
        const directions = latest.header.shape[1];
        let range = 0;
        while (range < ranges.length - 1 && placeOf(edges, edges[range + 1]) <= share) range++;
        const line = latest.data.subarray(range * directions, (range + 1) * directions);
        setText(this.readout, this.describe(range, largest(line, this.columns, x).column));
    }

    private describe(range: number, column: number): string {
        const { latest, ranges, axis } = this.map!;
        const angle = axis.values[column];
        const power = latest.data[range * axis.values.length + column];
        const sides = hasTrue(latest.header) ? bearingsOf(latest.header, angle).map((b) => formatBearing(b)) : [];
        const words = [`${angle.toFixed(2)} deg`, sides.length ? `true ${sides.join(" | ")}` : "", `${ranges[range].toFixed(0)} m`,
            levelText(power, latest.header.unit)];
        return words.filter(Boolean).join("  ·  ");
    }
}

/** Geometric means between the ranges, and the same distance beyond the first and the last. */
function edgesOf(ranges: Float64Array): Float64Array {
    const n = ranges.length;
    const edges = new Float64Array(n + 1);
    for (let i = 1; i < n; i++) edges[i] = Math.sqrt(ranges[i - 1] * ranges[i]);
    edges[0] = n > 1 ? (ranges[0] * ranges[0]) / edges[1] : ranges[0] / 1.5;
    edges[n] = n > 1 ? (ranges[n - 1] * ranges[n - 1]) / edges[n - 1] : ranges[0] * 1.5;
    return edges;
}

/** Position in the picture, 0 to 1 upwards, logarithmic. */
function placeOf(edges: Float64Array, range: number): number {
    const [low, high] = [edges[0], edges[edges.length - 1]];
    return Math.log(range / low) / Math.log(high / low);
}
