// SPDX-License-Identifier: GPL-3.0-or-later
// A waterfall with its axes, its cursor and the hand on it.
import { bearingsOf, formatBearing, hasTrue, isCone, type Bearings } from "./bearing.js";
import { wholeExtent, type Extent, type Frame } from "./columns.js";
import { colourOf, element, fitCanvas, letter_px, setText } from "./dom.js";
import { decibels, decimalsFor, referenceOf, ticks, timeTicks, utcDate, utcTime } from "./format.js";
import { automaticLevels, type Levels } from "./levels.js";
import type { Record, Row } from "./record.js";
import { settings } from "./settings.js";
import type { Sight } from "./sight.js";
import { Waterfall, type Look, type Reading } from "./waterfall.js";
import { shades, SHADES } from "./colour.js";

export interface PanelOptions {
    name: string; // for its title and for the page's tests
    title: string;
    record: Record;
    sight: Sight;
    /** Axis of bearings, which may be turned to true ones, or of anything else. */
    bearings: boolean;
    /** A click on the picture, at a value of the panel's axis and of the row's own. */
    picked(x: number, angle: number): void;
    /** A vertical line at a value of the row's own axis. */
    followed(): number | null;
}

const STALE_MS = 3000;
const LEVELS_EVERY_MS = 1000;

export class Panel {
    readonly root: HTMLElement;
    readonly waterfall: Waterfall;
    levels: Levels | null = null;
    private picture = element("canvas", { class: "picture" });
    private overlay = element("canvas", { class: "overlay" });
    private field = element("div", { class: "field" });
    private readout = element("output", { class: "readout" });
    private note = element("span", { class: "note" });
    private bar = element("canvas", { class: "bar", width: "128", height: "1" });
    private barLow = element("span");
    private barHigh = element("span");
    private box = { left: 0, top: 0, width: 0, height: 0 }; // of the picture, in CSS pixels
    private drawn = "";
    private levels_ms = -Infinity;
    private top_ms = 0;
    private pixel_ms = 1000;

    constructor(private readonly options: PanelOptions) {
        this.waterfall = new Waterfall(this.picture);
        this.field.append(this.picture, this.overlay);
        const scale = element("span", { class: "scale" }, [this.barLow, this.bar, this.barHigh]);
        const head = element("header", {}, [element("h2", {}, [options.title]), this.note, scale]);
        this.root = element("section", { class: "panel", "data-panel": options.name }, [head, this.field, this.readout]);
        this.listen();
    }

    /** Rows, or what they were when the watch-keeper stopped the picture. */
    private get rows(): readonly Row[] {
        return this.options.sight.frozen?.rows.get(this.options.name) ?? this.options.record.rows;
    }

    private get frame(): Frame {
        const { last } = this.options.record;
        return this.options.bearings && settings.frame === "true" && last && hasTrue(last.header) ? "true" : "array";
    }

    whole(): Extent | null {
        const row = this.rows[this.rows.length - 1];
        return row ? wholeExtent(row.axis, this.frame) : null;
    }

    shown(): Extent | null {
        return this.options.sight.shown ?? this.whole();
    }

    draw(now_ms: number): void {
        const { record, sight } = this.options;
        this.place();
        const row = this.rows[this.rows.length - 1];
        const shown = this.shown();
        if (!row || !shown) {
            setText(this.note, "no data yet");
            this.clear();
            return;
        }
        this.findLevels(now_ms);
        const stale = now_ms - record.last!.arrived_ms > Math.max(STALE_MS, 2 * record.last!.span_ms);
        const due_ms = stale && !sight.frozen ? this.dueOf(record.last!, now_ms) : row.utc_ms + row.span_ms;
        const span_ms = 1000 * settings.span_s;
        this.pixel_ms = span_ms / Math.max(1, this.picture.height);
        this.top_ms = sight.frozen?.top_ms ?? due_ms;
        const look: Look = {
            shown,
            frame: this.frame,
            normalisation: settings.normalisation,
            palette: settings.palette,
            low_db: this.levels?.low_db ?? 0,
            high_db: this.levels?.high_db ?? 1,
            marks: settings.marks && this.options.bearings,
        };
        const key = JSON.stringify([look, record.version, sight.version, stale && Math.floor(now_ms / 200), this.box,
            this.options.followed(), settings.span_s, devicePixelRatio]);
        if (key === this.drawn) return;
        this.drawn = key;
        this.waterfall.draw(this.rows, this.top_ms, this.pixel_ms, due_ms, look);
        this.drawOverlay(row, shown);
        this.drawScale(look);
        setText(this.note, this.noteOf(row));
        this.read(sight.cursor);
    }

    /** What is drawn under the cursor of the sight. */
    readingAt(x: number, utc_ms: number): Reading | null {
        const shown = this.shown();
        if (!shown) return null;
        const px = Math.floor(((x - shown.low) / (shown.high - shown.low)) * this.picture.width);
        const top = Math.ceil(this.top_ms / this.pixel_ms) - 1;
        const reading = this.waterfall.read(px, top - Math.floor(utc_ms / this.pixel_ms));
        return reading;
    }

    /** What the picture shows: its axis, the time at its top and that of a line. */
    geometry(): { shown: Extent | null; top_ms: number; pixel_ms: number } {
        return { shown: this.shown(), top_ms: this.top_ms, pixel_ms: this.pixel_ms };
    }

    /** Until when rows should have come, while none comes. */
    private dueOf(last: Row, now_ms: number): number {
        return last.utc_ms + Math.max(last.span_ms, now_ms - last.arrived_ms);
    }

    private findLevels(now_ms: number): void {
        if (!settings.automatic) this.levels = { low_db: settings.low_db, high_db: settings.high_db };
        else if (now_ms - this.levels_ms > LEVELS_EVERY_MS || !this.levels) {
            this.levels_ms = now_ms;
            this.levels = automaticLevels(this.rows, settings.normalisation, this.levels);
        }
    }

    /** New levels at once, as after another choice. */
    forgetLevels(): void {
        this.levels = null;
    }

    forgetRows(): void {
        this.waterfall.forget();
        this.drawn = "";
    }

    private place(): void {
        const letter = letter_px();
        const { clientWidth, clientHeight } = this.field;
        const second = this.hasSecondAxis() ? 1.7 : 0.4;
        const left = Math.round(5.4 * letter);
        const top = Math.round(second * letter);
        const width = Math.max(1, clientWidth - left - Math.round(0.8 * letter));
        const height = Math.max(1, clientHeight - top - Math.round(3 * letter));
        const box = { left, top, width, height };
        if (JSON.stringify(box) !== JSON.stringify(this.box)) this.box = box;
        this.picture.style.left = `${left}px`;
        this.picture.style.top = `${top}px`;
        fitCanvas(this.picture, width, height);
        fitCanvas(this.overlay, clientWidth, clientHeight);
    }

    private hasSecondAxis(): boolean {
        const { last } = this.options.record;
        return this.options.bearings && this.frame === "array" && !!last && hasTrue(last.header);
    }

    private clear(): void {
        this.drawn = "";
        for (const canvas of [this.picture, this.overlay])
            canvas.getContext("2d")!.clearRect(0, 0, canvas.width, canvas.height);
        setText(this.readout, "");
    }

    private drawOverlay(row: Row, shown: Extent): void {
        const context = this.overlay.getContext("2d")!;
        context.setTransform(devicePixelRatio, 0, 0, devicePixelRatio, 0, 0);
        context.clearRect(0, 0, this.field.clientWidth, this.field.clientHeight);
        const letter = letter_px();
        context.font = `${0.8 * letter}px ${colourOf("--letters")}`;
        context.fillStyle = context.strokeStyle = colourOf("--dim");
        this.drawTimes(context, letter);
        this.drawAxis(context, row, shown, letter);
        this.drawFollowed(context, row, shown);
        this.drawCursor(context, shown);
    }

    private drawTimes(context: CanvasRenderingContext2D, letter: number): void {
        const { left, top, height } = this.box;
        const bottom_ms = this.top_ms - 1000 * settings.span_s;
        context.textAlign = "right";
        context.textBaseline = "middle";
        for (const time of timeTicks(bottom_ms, this.top_ms, height / (2.4 * letter))) {
            const y = top + ((this.top_ms - time) / (this.top_ms - bottom_ms)) * height;
            context.fillRect(left - 4, y, 4, 1);
            context.fillText(utcTime(time), left - 6, y);
        }
        context.fillText("UTC", left - 6, top + height + 2 * letter);
    }

    private drawAxis(context: CanvasRenderingContext2D, row: Row, shown: Extent, letter: number): void {
        const { left, top, width, height } = this.box;
        const unit = row.axis.unit;
        const values = ticks(shown.low, shown.high, width / (5 * letter), unit);
        const decimals = decimalsFor(values.length > 1 ? values[1] - values[0] : 1);
        context.textAlign = "center";
        context.textBaseline = "top";
        for (const value of values) {
            const x = left + ((value - shown.low) / (shown.high - shown.low)) * width;
            context.fillRect(x, top + height, 1, 4);
            const label = this.frame === "true" ? formatBearing(value, decimals) : value.toFixed(decimals);
            context.fillText(label, x, top + height + 5);
            if (this.hasSecondAxis()) {
                context.fillRect(x, top - 4, 1, 4);
                const label = trueLabel(row.header, value);
                const half = context.measureText(label).width / 2;
                context.fillText(label, Math.max(left + half, Math.min(left + width - half, x)), 1);
            }
        }
        context.fillText(axisTitle(row, this.frame, this.options.bearings), left + width / 2, top + height + 1.6 * letter);
        if (!this.hasSecondAxis()) return;
        context.textAlign = "right";
        context.fillText(isCone(row.header) ? "true R|L" : "true", left - 6, 1);
    }

    private drawFollowed(context: CanvasRenderingContext2D, row: Row, shown: Extent): void {
        const angle = this.options.followed();
        if (angle === null) return;
        const { left, top, width, height } = this.box;
        const places = this.frame === "true" ? bearingsOf(row.header, angle) : [angle];
        context.strokeStyle = colourOf("--follow");
        context.setLineDash([3, 5]);
        for (const place of places) {
            const x = left + ((place - shown.low) / (shown.high - shown.low)) * width;
            if (x < left || x > left + width) continue;
            context.strokeRect(x, top, 0, height);
        }
        context.setLineDash([]);
    }

    private drawCursor(context: CanvasRenderingContext2D, shown: Extent): void {
        const { cursor } = this.options.sight;
        if (!cursor) return;
        const { left, top, width, height } = this.box;
        const x = left + ((cursor.x - shown.low) / (shown.high - shown.low)) * width;
        const y = top + ((this.top_ms - cursor.utc_ms) / (1000 * settings.span_s)) * height;
        context.fillStyle = colourOf("--cursor");
        if (x >= left && x <= left + width) context.fillRect(x, top, 1, height);
        if (y >= top && y <= top + height) context.fillRect(left, y, width, 1);
    }

    private drawScale(look: Look): void {
        const context = this.bar.getContext("2d")!;
        const pixels = new ImageData(this.bar.width, 1);
        const table = shades(look.palette);
        new Uint32Array(pixels.data.buffer).forEach((_, i, out) => (out[i] = table[Math.floor((i * SHADES) / out.length)]));
        context.putImageData(pixels, 0, 0);
        setText(this.barLow, `${look.low_db}`);
        setText(this.barHigh, `${look.high_db} dB${look.normalisation === "none" ? "" : " over background"}`);
    }

    private noteOf(row: Row): string {
        const { unit, flags } = row.header;
        const warnings = flags.filter((flag) => flag !== "repeat");
        return `${referenceOf(unit)}${warnings.length ? ` · ! ${warnings.join(", ")}` : ""}`;
    }

    private read(cursor: { x: number; utc_ms: number } | null): void {
        const reading = cursor && this.readingAt(cursor.x, cursor.utc_ms);
        setText(this.readout, reading ? describe(reading, this.options.bearings) : "");
    }

    private listen(): void {
        const { sight } = this.options;
        let held: { x: number; y: number; moved: boolean } | null = null;
        this.overlay.onpointermove = (event) => {
            if (held) this.drag(held, event);
            sight.cursor = this.at(event);
            sight.changed();
        };
        this.overlay.onpointerleave = () => {
            sight.cursor = null;
            sight.changed();
        };
        this.overlay.onpointerdown = (event) => {
            held = { x: event.clientX, y: event.clientY, moved: false };
            this.overlay.setPointerCapture(event.pointerId);
        };
        this.overlay.onpointerup = (event) => {
            if (held && !held.moved) this.pick(event);
            held = null;
        };
        this.overlay.ondblclick = () => {
            sight.shown = null;
            sight.changed();
        };
        this.overlay.onwheel = (event) => {
            event.preventDefault();
            const whole = this.whole();
            const at = this.at(event);
            if (whole && at) sight.zoom(whole, at.x, event.deltaY > 0 ? 1.25 : 0.8);
        };
    }

    private drag(held: { x: number; y: number; moved: boolean }, event: PointerEvent): void {
        const [dx, dy] = [event.clientX - held.x, event.clientY - held.y];
        if (!held.moved && Math.hypot(dx, dy) < 4) return;
        const { sight } = this.options;
        const whole = this.whole();
        const shown = this.shown();
        if (!whole || !shown) return;
        sight.pan(whole, (-dx / this.box.width) * (shown.high - shown.low));
        if (sight.frozen) sight.frozen.top_ms += (dy / this.box.height) * 1000 * settings.span_s;
        Object.assign(held, { x: event.clientX, y: event.clientY, moved: true });
        sight.changed();
    }

    private pick(event: PointerEvent): void {
        const at = this.at(event);
        const reading = at && this.readingAt(at.x, at.utc_ms);
        if (at && reading && reading.column >= 0) this.options.picked(at.x, reading.angle);
    }

    /** The place on the axes under the pointer, or null beside the picture. */
    private at(event: MouseEvent): { x: number; utc_ms: number } | null {
        const shown = this.shown();
        const frame = this.picture.getBoundingClientRect();
        const [x, y] = [event.clientX - frame.left, event.clientY - frame.top];
        if (!shown || x < 0 || y < 0 || x >= frame.width || y >= frame.height) return null;
        return {
            x: shown.low + ((x + 0.5) / frame.width) * (shown.high - shown.low),
            utc_ms: (Math.ceil(this.top_ms / this.pixel_ms) - 0.5 - Math.floor(y * devicePixelRatio)) * this.pixel_ms,
        };
    }
}

/** The true bearings that an angle stands for, short: right of the axis | left of it. */
function trueLabel(bearings: Bearings, angle: number): string {
    return bearingsOf(bearings, angle).map((deg) => formatBearing(Math.round(deg), 0)).join("|");
}

function axisTitle(row: Row, frame: Frame, bearings: boolean): string {
    if (!bearings) return `${row.axis.name}, ${row.axis.unit ?? ""}`;
    const both = isCone(row.header) ? ", each contact on both sides of the axis" : "";
    if (frame === "true") return `true bearing, deg${both}`;
    return isCone(row.header)
        ? "angle from the array's axis, deg (port and starboard alike)"
        : "azimuth in the array frame, deg clockwise from forward";
}

/** What the cursor reads: bearing, time, absolute level. */
export function describe(reading: Reading, bearings: boolean): string {
    const first = reading.rows[0];
    const time = `${utcTime(first && reading.rows.length === 1 ? first.utc_ms : reading.utc_ms, 1)}Z`;
    if (reading.missing === "all") return `${utcDate(reading.utc_ms)} ${time}  no data was received`;
    if (reading.column < 0) return "";
    const { header, axis } = reading.rows[reading.rows.length - 1];
    const sides = bearings && hasTrue(header) ? bearingsOf(header, reading.angle).map((b) => formatBearing(b)) : [];
    const words = [
        `${reading.angle.toFixed(axis.unit === "deg" ? 2 : 1)} ${axis.unit ?? ""}`,
        sides.length ? `true ${sides.join(" | ")}` : "",
        `${decibels(reading.power).toFixed(2)} ${referenceOf(header.unit)}`,
        time,
        settings.normalisation === "none" ? "" : `${reading.over_db.toFixed(1)} dB over background`,
        reading.rows.length > 1 ? `mean of ${reading.rows.length} windows` : `window ${header.window}`,
        reading.missing === "some" ? "some missing" : "",
        (header.missing_share?.mean ?? 0) > 0 ? `${(100 * header.missing_share!.mean).toFixed(1)} % of samples missing` : "",
    ];
    return words.filter(Boolean).join("  ·  ");
}
