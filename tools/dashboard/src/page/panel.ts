// SPDX-License-Identifier: GPL-3.0-or-later
// A waterfall with its axes, its cursor and its pointer events.
import type { RowHeader } from "../shared/frames.js";
import { bearingsOf, formatBearing, hasTrue, isCone, isSided, isTrue, sideText, type Bearings, type Placed } from "./bearing.js";
import { circleStart, placesOf, wholeExtent, type Extent, type Frame } from "./columns.js";
import type { Contact } from "./contacts.js";
import { colourOf, element, fitCanvas, letter_px, setText } from "./dom.js";
import { decimalsFor, levelText, referenceOf, ticks, timeTicks, utcDate, utcTime } from "./format.js";
import { Empty } from "./empty.js";
import { isStale, withHeading, type Heading } from "./heading.js";
import { isRatio, ratioText } from "./kinds.js";
import { automaticLevels, type Levels } from "./levels.js";
import type { Normalisation } from "./normalise.js";
import { patience_ms, type Reason, type Record, type Row } from "./record.js";
import { RANGES, settings } from "./settings.js";
import type { Sight } from "./sight.js";
import { runsOf, SIGNS, tracesOf, type Followed, type Run } from "./tracks.js";
import { Waterfall, type Look, type Reading } from "./waterfall.js";
import { shades, SHADES } from "./colour.js";

export interface PanelOptions {
    name: string; // in its title and in the page's tests
    title: string;
    record(): Record;
    sight: Sight;
    /** Whether the axis has bearings, which may be turned to true ones. */
    bearings: boolean;
    /** A click on the picture, at a value of the panel's axis and of the row's own. */
    picked(x: number, angle: number): void;
    /** The last heading received. */
    heading(): Heading | null;
    /** The contact or track to mark with a dashed line. */
    followed(): Placed | null;
    /** The contacts of its beamformer; if a contact's side is known, it is written above its place. */
    contacts(): Contact[];
    /** The tracks, whose numbers are written beside their newest places. */
    tracks(): readonly Followed[];
    /** The number of the followed track. */
    track(): number | null;
    /** A track's line or number was clicked. */
    chose(track: number): void;
    /** Text while there are no rows. */
    waiting(): string;
}

const REASONS: { [why in Reason]: string } = { array: "another array", run: "the daemon was restarted", axis: "another axis" };
const LEVELS_EVERY_MS = 1000;
const NAMED_MS = 1000; // time since a contact was last seen
const NAME_LETTERS = 2.2; // half the width of a side's name or a track's number
const REACH_PX = 5; // distance between a click and the line of a track that it chooses

export class Panel {
    readonly root: HTMLElement;
    readonly waterfall: Waterfall;
    levels: Levels | null = null;
    private picture = element("div", { class: "picture" });
    private times = element("canvas", { class: "times" }); // left of the picture
    private above = element("canvas", { class: "above" }); // true bearings
    private below = element("canvas", { class: "below" }); // its axis
    private lines = element("div", { class: "lines" }); // the cursor's lines, and those of the followed contact
    private field = element("div", { class: "field" });
    private readout = element("output", { class: "readout" });
    private note = element("span", { class: "note" });
    private empty = new Empty();
    private bar = element("canvas", { class: "bar", width: "128", height: "1" });
    private barLow = element("span");
    private barHigh = element("span");
    private of: Record | null = null; // the record that is drawn
    private box = { left: 0, top: 0, width: 0, height: 0 }; // of the picture, in CSS pixels
    private drawn = "";
    private drawnAxis = "";
    private drawnScale = "";
    private zoomed = ""; // the whole extent of the axis to which the zoom belongs
    private levels_ms = -Infinity;
    private top_ms = 0;
    private pixel_ms = 1000;

    constructor(private readonly options: PanelOptions) {
        this.waterfall = new Waterfall(this.picture);
        this.field.append(this.picture, this.times, this.above, this.below, this.lines, this.empty.root);
        const scale = element("span", { class: "scale" }, [this.barLow, this.bar, this.barHigh]);
        const head = element("header", {}, [element("h2", {}, [options.title]), this.note, scale]);
        this.root = element("section", { class: "panel", "data-panel": options.name, "aria-label": options.title }, [head, this.field, this.readout]);
        this.listen();
    }

    /** The rows, or a copy from when the user stopped the picture. */
    private get rows(): readonly Row[] {
        const record = this.options.record();
        return this.options.sight.frozen?.rows.get(record) ?? record.rows;
    }

    /** The newest of the shown rows. */
    private get newest(): Row | undefined {
        return this.rows[this.rows.length - 1];
    }

    private get frame(): Frame {
        const last = this.newest;
        if (!last || !this.options.bearings) return "array";
        return isTrue(last.header) || (settings.frame === "true" && hasTrue(last.header)) ? "true" : "array";
    }

    whole(): Extent | null {
        const row = this.newest;
        return row ? wholeExtent(row.axis, this.frame) : null;
    }

    shown(): Extent | null {
        return this.options.sight.shown ?? this.whole();
    }

    draw(now_ms: number): void {
        const { sight } = this.options;
        const record = this.options.record();
        if (record !== this.of) this.forgetRows();
        this.of = record;
        this.place();
        const row = this.newest;
        this.endZoom();
        const shown = this.shown();
        this.picture.hidden = !row;
        this.empty.say(row ? "" : this.options.waiting());
        if (!row || !shown) {
            setText(this.note, "no data yet");
            this.clear();
            return;
        }
        this.findLevels(row, now_ms);
        const stale = !sight.frozen && now_ms - row.arrived_ms > patience_ms(row);
        const due_ms = stale ? this.dueOf(row, now_ms) : row.utc_ms + row.span_ms;
        const span_ms = 1000 * settings.span_s;
        this.pixel_ms = span_ms / this.waterfall.height;
        this.top_ms = sight.frozen?.top_ms ?? due_ms;
        const look: Look = {
            shown,
            frame: this.frame,
            normalisation: normalisationOf(row),
            palette: settings.palette,
            low_db: this.levels?.low_db ?? 0,
            high_db: this.levels?.high_db ?? 1,
            marks: settings.marks && this.options.bearings,
            tracks: settings.tracks && this.options.bearings,
            followed: this.options.track(),
        };
        const key = JSON.stringify([look, record.version, sight.version, stale && Math.floor(now_ms / 200), this.box,
            this.options.followed()?.az_deg, settings.span_s, devicePixelRatio]);
        if (key === this.drawn) return;
        this.drawn = key;
        this.waterfall.draw(this.rows, this.top_ms, this.pixel_ms, due_ms, look);
        this.drawTimes();
        this.drawAxis(row, shown);
        this.drawLines(row, shown);
        this.drawScale(look);
        setText(this.note, this.noteOf(row));
        this.read(sight.cursor);
    }

    /** What is drawn under the cursor. */
    readingAt(x: number, utc_ms: number): Reading | null {
        const shown = this.shown();
        if (!shown) return null;
        const px = Math.floor(((x - shown.low) / (shown.high - shown.low)) * this.waterfall.width);
        const top = Math.ceil(this.top_ms / this.pixel_ms) - 1;
        const reading = this.waterfall.read(px, top - Math.floor(utc_ms / this.pixel_ms));
        return reading;
    }

    /** What the picture shows: its axis, the time at its top, and the duration of a line. */
    geometry(): { shown: Extent | null; top_ms: number; pixel_ms: number } {
        return { shown: this.shown(), top_ms: this.top_ms, pixel_ms: this.pixel_ms };
    }

    /** Ends the zoom, because it has another meaning on another axis. Without rows no axis is known. */
    private endZoom(): void {
        const { sight } = this.options;
        if (!this.newest) return;
        const whole = JSON.stringify(this.whole());
        if (this.zoomed && whole !== this.zoomed && sight.shown) {
            sight.shown = null;
            sight.changed();
        }
        this.zoomed = whole;
    }

    /** The time until which rows are overdue while none is received. */
    private dueOf(last: Row, now_ms: number): number {
        return last.utc_ms + Math.max(last.span_ms, now_ms - last.arrived_ms);
    }

    private findLevels(row: Row, now_ms: number): void {
        const [low, high] = RANGES[isRatio(row.header.unit) ? "ratio" : "power"];
        if (!settings.automatic) this.levels = { low_db: settings[low], high_db: settings[high] };
        else if (now_ms - this.levels_ms > LEVELS_EVERY_MS || !this.levels) {
            this.levels_ms = now_ms;
            this.levels = automaticLevels(this.rows, normalisationOf(row), this.levels);
        }
    }

    /** Finds new levels at once, as after another choice. */
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
        Object.assign(this.picture.style, { left: `${left}px`, top: `${top}px` });
        Object.assign(this.lines.style, { left: `${left}px`, top: `${top}px`, width: `${width}px`, height: `${height}px` });
        this.below.style.top = `${top + height}px`;
        this.waterfall.fit(width, height);
        const resized = [
            fitCanvas(this.times, left, clientHeight),
            fitCanvas(this.above, clientWidth, top),
            fitCanvas(this.below, clientWidth, clientHeight - top - height),
        ];
        if (resized.some(Boolean)) this.drawn = this.drawnAxis = "";
    }

    private hasSecondAxis(): boolean {
        const last = this.newest;
        return this.options.bearings && this.frame === "array" && !!last && hasTrue(this.pointed(last));
    }

    /** The header of a row. Without a current heading it gets the last one, and its bearings are grey. */
    private pointed({ header }: Row): RowHeader {
        return withHeading(header, this.options.heading());
    }

    private clear(): void {
        this.drawn = this.drawnAxis = this.drawnScale = "";
        for (const canvas of [this.times, this.above, this.below]) canvas.getContext("2d")!.clearRect(0, 0, canvas.width, canvas.height);
        this.lines.replaceChildren();
        for (const text of [this.readout, this.barLow, this.barHigh]) setText(text, "");
    }

    /** A margin's context, cleared, with its font set. */
    private margin(canvas: HTMLCanvasElement): CanvasRenderingContext2D {
        const context = canvas.getContext("2d")!;
        context.setTransform(devicePixelRatio, 0, 0, devicePixelRatio, 0, 0);
        context.clearRect(0, 0, canvas.width, canvas.height);
        context.font = `${0.8 * letter_px()}px ${colourOf("--letters")}`;
        context.fillStyle = colourOf("--dim");
        return context;
    }

    private drawTimes(): void {
        const { left, top, height } = this.box;
        const letter = letter_px();
        const context = this.margin(this.times);
        const bottom_ms = this.top_ms - 1000 * settings.span_s;
        context.textAlign = "right";
        context.textBaseline = "middle";
        for (const time of timeTicks(bottom_ms, this.top_ms, height / (2.4 * letter))) {
            const y = top + ((this.top_ms - time) / (this.top_ms - bottom_ms)) * height;
            context.fillRect(left - 4, y, 4, 1);
            context.fillText(utcTime(time), left - 6, y);
        }
        context.fillText("UTC", left - 6, top + height + letter); // beside the ticks' labels; the title is below them
    }

    /** The horizontal axes; they do not change while rows arrive. */
    private drawAxis(row: Row, shown: Extent): void {
        const { width } = this.box;
        const values = ticks(shown.low, shown.high, width / (5 * letter_px()), row.axis.unit);
        const decimals = decimalsFor(values.length > 1 ? values[1] - values[0] : 1);
        const labels = values.map((value) => (this.frame === "true" ? formatBearing(value, decimals) : value.toFixed(decimals)));
        const bearings = this.hasSecondAxis() ? values.map((value) => trueLabel(this.pointed(row), value)) : [];
        const title = axisTitle(row, this.frame, this.options.bearings);
        const key = JSON.stringify([values, labels, bearings, title, isStale(row), this.box, shown, devicePixelRatio]);
        if (key === this.drawnAxis) return;
        this.drawnAxis = key;
        const places = values.map((value) => this.box.left + ((value - shown.low) / (shown.high - shown.low)) * width);
        this.drawBelow(places, labels, title);
        this.drawAbove(places, bearings, isCone(row.header) ? "true R|L" : "true", isStale(row));
    }

    private drawBelow(places: number[], labels: string[], title: string): void {
        const context = this.margin(this.below);
        context.textAlign = "center";
        context.textBaseline = "top";
        places.forEach((x, i) => {
            context.fillRect(x, 0, 1, 4);
            context.fillText(labels[i], x, 5);
        });
        context.fillText(title, this.box.left + this.box.width / 2, 1.6 * letter_px());
    }

    private drawAbove(places: number[], labels: string[], name: string, stale: boolean): void {
        const context = this.margin(this.above);
        if (stale) context.fillStyle = colourOf("--stale");
        if (labels.length === 0) return;
        const { left, top, width } = this.box;
        context.textAlign = "center";
        context.textBaseline = "top";
        places.forEach((x, i) => {
            context.fillRect(x, top - 4, 1, 4);
            const half = context.measureText(labels[i]).width / 2;
            context.fillText(labels[i], Math.max(left + half, Math.min(left + width - half, x)), 1);
        });
        context.textAlign = "right";
        context.fillText(name, left - 6, 1);
    }

    /** The cursor's lines, and those of the followed contact. */
    private drawLines(row: Row, shown: Extent): void {
        const { width, height } = this.box;
        const followed = this.options.followed();
        const places = followed ? placesOf(row.header, this.frame, followed) : [];
        const { cursor } = this.options.sight;
        const across = (value: number) => ((value - shown.low) / (shown.high - shown.low)) * width;
        const made = places.map((place) => ruler("followed", across(place), width, "left"));
        if (cursor) {
            made.push(ruler("cursor-x", across(cursor.x), width, "left"));
            made.push(ruler("cursor-y", ((this.top_ms - cursor.utc_ms) / (1000 * settings.span_s)) * height, height, "top"));
        }
        const names = [...this.sideNames(row, across), ...this.trackNames(row, across)];
        this.lines.replaceChildren(...made.filter((line): line is HTMLElement => line !== null), ...this.placeNames(names));
    }

    /** The sides of contacts that a turn has shown. */
    private sideNames(row: Row, across: (value: number) => number): Name[] {
        const sided = this.options.contacts().filter((c) => isSided(c.now) && row.utc_ms - c.last_ms < NAMED_MS);
        return sided.flatMap(({ now }) =>
            placesOf(row.header, this.frame, now).map((place) => ({ made: element("i", { class: `side ${now.side}` }, [sideText(now.side)]), x: across(place), y: 0 })));
    }

    /** The numbers of the tracks beside their newest places, as far as the picture reaches. A stopped picture has them
     * where they were then. */
    private trackNames(row: Row, across: (value: number) => number): Name[] {
        if (!settings.tracks) return [];
        const start = circleStart(row.axis, this.frame);
        const shown = runsOf(row.traces, null, this.frame, start);
        return this.options.tracks().flatMap(({ now, by, last_ms }) => {
            const isNow = row.utc_ms - last_ms < NAMED_MS;
            const own = isNow ? shown.filter(({ number }) => number === now.number) : [];
            const runs = own.length || (isNow && this.options.sight.frozen) ? own : runsOf(tracesOf([now], by), null, this.frame, start);
            const y = this.heightOf(isNow ? row.utc_ms + row.span_ms : last_ms);
            return runs.map(({ number, state, to }) => ({ made: this.trackName(number, state), x: across(to), y }));
        });
    }

    private trackName(number: number, state: Run["state"]): HTMLElement {
        const chosen = number === this.options.track() ? " chosen" : "";
        const made = element("i", { class: `track ${state}${chosen}`, "data-track": String(number) }, [`${number}${SIGNS[state]}`]);
        made.onpointerdown = () => this.options.chose(number);
        return made;
    }

    /** Pixels below the top of the picture; 0 for what is hardly above it. */
    private heightOf(utc_ms: number): number {
        const below_ms = this.top_ms - utc_ms;
        return below_ms < 0 && below_ms > -NAMED_MS ? 0 : (below_ms * this.box.height) / (1000 * settings.span_s);
    }

    /** Places names at their x, one below the other where they are close, and from their y on. */
    private placeNames(names: Name[]): HTMLElement[] {
        const { width, height } = this.box;
        const half = NAME_LETTERS * letter_px();
        const seen = names.filter(({ x, y }) => x >= 0 && x <= width && y >= 0 && y < height).sort((a, b) => a.x - b.x);
        const placed: { x: number; y: number }[] = [];
        return seen.map(({ made, x, y: wanted }) => {
            const step = 1.1 * letter_px();
            let y = wanted + 0.2 * letter_px();
            while (placed.some((p) => Math.abs(p.x - x) < half && Math.abs(p.y - y) < step)) y += step;
            placed.push({ x, y });
            Object.assign(made.style, { left: `${Math.round(x)}px`, top: `${y.toFixed(1)}px` });
            return made;
        });
    }

    private drawScale(look: Look): void {
        const key = `${look.palette} ${look.low_db} ${look.high_db} ${look.normalisation}`;
        if (key === this.drawnScale) return;
        this.drawnScale = key;
        const context = this.bar.getContext("2d")!;
        const pixels = new ImageData(this.bar.width, 1);
        const table = shades(look.palette);
        new Uint32Array(pixels.data.buffer).forEach((_, i, out) => (out[i] = table[Math.floor((i * SHADES) / out.length)]));
        context.putImageData(pixels, 0, 0);
        setText(this.barLow, `${look.low_db}`);
        setText(this.barHigh, `${look.high_db} dB${look.normalisation === "none" ? "" : " over background"}`);
    }

    private noteOf(row: Row): string {
        const { topic, unit, flags } = row.header;
        const warnings = flags.filter((flag) => flag !== "repeat");
        const { restart } = this.options.record();
        const begun = restart ? ` · new record at ${utcTime(restart.utc_ms)}Z: ${REASONS[restart.why]}` : "";
        const mean = (row.header.integrated ?? 1) > 1 ? ` · each row the mean of ${row.header.integrated} windows` : "";
        return `${referenceOf(unit)}${ratioText(topic)}${mean}${begun}${warnings.length ? ` · ! ${warnings.join(", ")}` : ""}`;
    }

    private read(cursor: { x: number; utc_ms: number } | null): void {
        const reading = cursor && this.readingAt(cursor.x, cursor.utc_ms);
        setText(this.readout, reading ? describe(reading, this.options.bearings) : "");
    }

    private listen(): void {
        const { sight } = this.options;
        let held: { x: number; y: number; moved: boolean } | null = null;
        this.picture.onpointermove = (event) => {
            if (held) this.drag(held, event);
            sight.cursor = this.at(event);
            sight.changed();
        };
        this.picture.onpointerleave = () => {
            sight.cursor = null;
            sight.changed();
        };
        this.picture.onpointerdown = (event) => {
            held = { x: event.clientX, y: event.clientY, moved: false };
            this.picture.setPointerCapture(event.pointerId);
        };
        this.picture.onpointerup = (event) => {
            if (held && !held.moved) this.pick(event);
            held = null;
        };
        this.picture.ondblclick = () => {
            sight.shown = null;
            sight.changed();
        };
        this.picture.onwheel = (event) => {
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
        const track = this.trackUnder(event);
        if (track !== null) return this.options.chose(track);
        const reading = at && this.readingAt(at.x, at.utc_ms);
        if (at && reading && reading.column >= 0) this.options.picked(at.x, reading.angle);
    }

    private trackUnder(event: MouseEvent): number | null {
        const frame = this.picture.getBoundingClientRect();
        const [x, y] = [event.clientX - frame.left, event.clientY - frame.top].map((px) => Math.floor(px * devicePixelRatio));
        return this.waterfall.trackAt(x, y, REACH_PX * devicePixelRatio);
    }

    /** The place on the axes under the pointer, or null if it is outside the picture. */
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

/** A text beside a place of the picture. */
interface Name {
    made: HTMLElement;
    x: number;
    y: number; // where it may begin, in pixels
}

/** A line across the picture, or null if it is outside. */
function ruler(name: string, place: number, length: number, side: "left" | "top"): HTMLElement | null {
    if (place < 0 || place > length) return null;
    return element("i", { class: name, style: `${side}: ${Math.round(place)}px` });
}

/** The true bearings of an angle, short: right of the axis | left of it. */
function trueLabel(bearings: Bearings, angle: number): string {
    return bearingsOf(bearings, angle).map((deg) => formatBearing(Math.round(deg), 0)).join("|");
}

function axisTitle(row: Row, frame: Frame, bearings: boolean): string {
    if (!bearings) return `${row.axis.name}, ${row.axis.unit ?? ""}`;
    const both = row.header.ambiguous ? ", with the image on the other side of the axis" : "";
    if (frame === "true" || isTrue(row.header)) return `true bearing, deg${both}`;
    return isCone(row.header)
        ? "angle from the array's axis, deg (port and starboard alike)"
        : "azimuth in the array frame, deg clockwise from forward";
}

/** A ratio is not normalised a second time. */
function normalisationOf({ header }: Row): Normalisation {
    return isRatio(header.unit) ? "none" : settings.normalisation;
}

function windowsText(rows: Row[]): string {
    const count = rows.reduce((sum, row) => sum + (row.header.integrated ?? 1), 0);
    return count > 1 ? `mean of ${count} windows` : `window ${rows[0].header.window}`;
}

/** The text for the cursor: bearing, time, absolute level or ratio. */
export function describe(reading: Reading, bearings: boolean): string {
    const first = reading.rows[0];
    const time = `${utcTime(first && reading.rows.length === 1 ? first.utc_ms : reading.utc_ms, 1)}Z`;
    if (reading.missing === "all") return `${utcDate(reading.utc_ms)} ${time}  no data was received`;
    if (reading.column < 0) return "";
    const row = reading.rows[reading.rows.length - 1];
    const { header, axis } = row;
    const sides = bearings && hasTrue(header) ? bearingsOf(header, reading.angle).map((b) => formatBearing(b)) : [];
    const words = [
        `${reading.angle.toFixed(axis.unit === "deg" ? 2 : 1)} ${axis.unit ?? ""}`,
        sides.length ? `true ${sides.join(" | ")}` : "",
        levelText(reading.power, header.unit),
        time,
        normalisationOf(row) === "none" || !(reading.power > 0) ? "" : `${reading.over_db.toFixed(1)} dB over background`,
        windowsText(reading.rows),
        reading.missing === "some" ? "some missing" : "",
        (header.missing_share?.mean ?? 0) > 0 ? `${(100 * header.missing_share!.mean).toFixed(1)} % of samples missing` : "",
    ];
    return words.filter(Boolean).join("  ·  ");
}
