// SPDX-License-Identifier: GPL-3.0-or-later
// The picture of a record: newest on top, each line of pixels an interval of time. Lines are stored in a ring of tiles
// of some lines each, which are attached to a strip that moves as a whole. A new row costs only its own lines and the
// tile that contains them, not the whole picture, so no GPU is needed. The tiles are canvases that get whole bitmaps:
// without a GPU, Chromium copies every other canvas for each frame, changed or not.
import { EMPTY, FOLLOWED, GAP, MARK, PART, SHADES, shades, TRACK, TRACK_EDGE } from "./colour.js";
import { circleStart, columnsOf, largest, placesOf, type Columns, type Extent, type Frame } from "./columns.js";
import { element } from "./dom.js";
import { background, type Normalisation } from "./normalise.js";
import { follows, stretchOf, type Row, type RowAxis, type Stretch } from "./record.js";
import { isInked, runsOf, type Run } from "./tracks.js";

/** Everything that determines how a row looks; a change draws the whole picture again. */
export interface Look {
    shown: Extent; // of the horizontal axis
    frame: Frame;
    normalisation: Normalisation;
    palette: string;
    low_db: number;
    high_db: number;
    marks: boolean;
    tracks: boolean;
    followed: number | null; // number of a track
}

export interface Reading {
    utc_ms: number;
    angle: number; // on the row's own axis
    column: number;
    power: number; // as received, mean over the rows of this line
    over_db: number; // relative to the background that the normalisation subtracts
    rows: Row[];
    missing: Stretch["missing"];
}

const TILE_LINES = 128;
const STRIP_LINES = 100_000; // distance that the strip moves before it is reset, because lengths in CSS are not doubles
const TICK_SHARE = 1 / 40; // share of the picture's width for the ticks of missing data, at each margin
const TICK_PX = 8; // and at most this
const MARK_SHARE = 1 / 70; // share of the picture's width between a peak and its marks
const LINE_PX = 0.75; // half the width of a track's line; of the followed one's twice as much
const BAR_PX = 7; // half the width of the bar where a track was lost
const REPAINTED = 3; // newest rows, whose detections may arrive after them

interface Tile {
    canvas: HTMLCanvasElement;
    context: ImageBitmapRenderingContext;
    image: ImageData;
    pixels: Uint32Array;
    top: number; // its place on the strip, in lines
    changed: boolean; // the canvas does not show all lines yet
}

export class Waterfall {
    width = 0; // of the picture, in pixels of the screen
    height = 0;
    private strip = element("div", { class: "strip" });
    private tiles: Tile[] = [];
    private brush = makeBrush(1);
    private bins = new Float64Array(0); // the time interval that each line of the ring shows
    private fixed_ms = -Infinity; // lines that end before this time need no more painting
    private look: Look | null = null;
    private key = "";
    private table = shades("viridis");
    private columns = new Map<string, Columns>();
    private axisIds = new WeakMap<RowAxis, number>();
    private axisCount = 0;
    private rows: readonly Row[] = [];
    private due_ms = 0;
    private pixel_ms = 1000;
    private topBin = 0;
    private originBin = NaN; // the topmost bin while the strip has not moved

    /** Tiles are children of root, which hides what is outside of it. */
    constructor(private readonly root: HTMLElement) {}

    /** Sets the picture's size, in CSS pixels. */
    fit(css_width: number, css_height: number): void {
        const [width, height] = [css_width, css_height].map((length) => Math.max(1, Math.round(length * devicePixelRatio)));
        if (width === this.width && height === this.height && this.tiles.length) return;
        Object.assign(this.root.style, { width: `${css_width}px`, height: `${css_height}px` });
        [this.width, this.height] = [width, height];
        const count = Math.ceil(height / TILE_LINES) + 1; // the topmost and the lowest tile are shown in part
        this.tiles = Array.from({ length: count }, () => makeTile(width));
        this.brush = makeBrush(width);
        this.strip.replaceChildren(...this.tiles.map((tile) => tile.canvas));
        this.root.replaceChildren(this.strip);
        this.bins = new Float64Array(count * TILE_LINES);
        this.forget();
    }

    /** Draws the rows whose times are below top_ms, a line per pixel_ms. */
    draw(rows: readonly Row[], top_ms: number, pixel_ms: number, due_ms: number, look: Look): void {
        this.begin(look, pixel_ms);
        this.rows = rows;
        this.due_ms = due_ms;
        this.topBin = Math.ceil(top_ms / pixel_ms) - 1;
        for (let y = 0; y < this.height; y++) this.refresh(this.topBin - y);
        const recent = rows[rows.length - 1 - REPAINTED];
        this.fixed_ms = recent ? recent.utc_ms : -Infinity;
        this.show();
    }

    /** Discards the painted rows, because the rows have changed. */
    forget(): void {
        this.bins.fill(NaN);
        this.fixed_ms = -Infinity;
    }

    /** What is drawn at a pixel of the canvas. */
    read(x: number, y: number): Reading | null {
        const found = this.stretch(this.topBin - y);
        if (!found || !this.look) return null;
        const utc_ms = (this.topBin - y + 0.5) * this.pixel_ms;
        const rows = this.rows.slice(found.first, found.last + 1);
        const none = { utc_ms, angle: NaN, column: -1, power: NaN, over_db: NaN, rows, missing: found.missing };
        if (found.missing === "all") return none;
        const { axis, power } = this.meanOf(found);
        const columns = this.columnsFor(this.rows[found.last], axis);
        if (x < 0 || x >= columns.first.length || columns.first[x] < 0) return none;
        const level = this.levelsOf(power, axis);
        const { column, value } = largest(level, columns, x);
        return { ...none, angle: axis.values[column], column, power: power[column], over_db: value };
    }

    /** The track whose line is nearest to a pixel, or null if none is within `reach` pixels. */
    trackAt(x: number, y: number, reach: number): number | null {
        const found = this.stretch(this.topBin - y);
        if (!found || found.missing === "all" || !this.look?.tracks) return null;
        const runs = this.runs(found.last, false).map((run) => ({ ...run, apart: Math.abs(this.pixelOf(run.to) - x) }));
        const [best] = runs.sort((a, b) => a.apart - b.apart);
        return best && best.apart <= reach ? best.number : null;
    }

    private begin(look: Look, pixel_ms: number): void {
        const key = JSON.stringify([look, pixel_ms, this.width, this.height]);
        if (key === this.key) return;
        this.key = key;
        this.look = look;
        this.pixel_ms = pixel_ms;
        this.table = shades(look.palette);
        this.columns.clear();
        this.forget();
    }

    private refresh(bin: number): void {
        const slot = modulo(bin, this.bins.length);
        const isFixed = (bin + 1) * this.pixel_ms <= this.fixed_ms;
        if (this.bins[slot] === bin && isFixed) return;
        this.bins[slot] = bin;
        const tile = this.tiles[Math.floor(slot / TILE_LINES)];
        const line = TILE_LINES - 1 - (slot % TILE_LINES);
        this.paint(bin, tile.pixels.subarray(line * this.width, (line + 1) * this.width));
        tile.changed = true;
    }

    private stretch(bin: number): Stretch | null {
        return stretchOf(this.rows, bin * this.pixel_ms, (bin + 1) * this.pixel_ms, this.due_ms);
    }

    private paint(bin: number, line: Uint32Array): void {
        const found = this.stretch(bin);
        if (!found || found.missing === "all") {
            line.fill(EMPTY);
            if (found) tick(line, GAP);
            return;
        }
        const { axis, power } = this.meanOf(found);
        const columns = this.columnsFor(this.rows[found.last], axis);
        const level = this.levelsOf(power, axis);
        const { low_db, high_db, marks } = this.look!;
        const scale = SHADES / Math.max(1e-6, high_db - low_db);
        for (let x = 0; x < line.length; x++) {
            if (columns.first[x] < 0) {
                line[x] = EMPTY;
                continue;
            }
            const shade = Math.floor((largest(level, columns, x).value - low_db) * scale);
            line[x] = this.table[Math.max(0, Math.min(SHADES - 1, shade))];
        }
        for (let i = found.first; i <= found.last; i++) {
            if (marks) this.mark(this.rows[i], line);
            if ((this.rows[i].header.missing_share?.mean ?? 0) > 0) tick(line, PART);
        }
        if (found.missing === "some") tick(line, GAP);
        if (this.look!.tracks) for (let i = found.first; i <= found.last; i++) this.trace(i, bin, line);
    }

    /** The tracks of a row. Where the row begins, their lines come from their places in the row before. */
    private trace(i: number, bin: number, line: Uint32Array): void {
        const since = bin - Math.floor(this.rows[i].utc_ms / this.pixel_ms); // lines since the row's first one
        const runs = this.runs(i, since === 0);
        const { followed } = this.look!;
        runs.sort((a, b) => Number(a.number === followed) - Number(b.number === followed)); // the followed one on top
        for (const { number, state, from, to } of runs) {
            if (!isInked(state, Math.floor(bin / devicePixelRatio))) continue;
            const isBar = state === "lost" && since < 2 * devicePixelRatio;
            const half = devicePixelRatio * (isBar ? BAR_PX : number === followed ? 2 * LINE_PX : LINE_PX);
            const [low, high] = [this.pixelOf(Math.min(from, to)) - half, this.pixelOf(Math.max(from, to)) + half];
            span(line, low - devicePixelRatio, high + devicePixelRatio, TRACK_EDGE);
            span(line, low, high, number === followed ? FOLLOWED : TRACK);
        }
    }

    private runs(i: number, connected: boolean): Run[] {
        const [row, before] = [this.rows[i], this.rows[i - 1]];
        const { frame } = this.look!;
        const known = connected && before && follows(before, row) ? before.traces : null;
        return runsOf(row.traces, known, frame, circleStart(row.axis, frame));
    }

    private pixelOf(place: number): number {
        const { low, high } = this.look!.shown;
        return ((place - low) / (high - low)) * this.width;
    }

    /** Two marks beside each detection, which do not cover the peak. */
    private mark(row: Row, line: Uint32Array): void {
        const { shown, frame } = this.look!;
        const scale = line.length / (shown.high - shown.low);
        const thick = Math.max(1, Math.round(line.length / 600));
        const aside = Math.max(5, Math.round(line.length * MARK_SHARE));
        for (const detection of row.marks) {
            for (const place of placesOf(row.header, frame, detection)) {
                const x = Math.floor((place - shown.low) * scale);
                for (const tick of [x - aside, x + aside]) line.fill(MARK, Math.max(0, tick), Math.max(0, tick + thick));
            }
        }
    }

    private meanOf(found: Stretch): { axis: RowAxis; power: Float32Array } {
        const { axis, data } = this.rows[found.last];
        if (found.first === found.last) return { axis, power: data };
        const power = new Float32Array(data.length);
        let count = 0;
        for (let i = found.first; i <= found.last; i++) {
            if (this.rows[i].axis !== axis) continue;
            count++;
            for (let c = 0; c < power.length; c++) power[c] += this.rows[i].data[c];
        }
        return { axis, power: power.map((p) => p / count) };
    }

    /** The level drawn for each value, in dB. */
    private levelsOf(power: Float32Array, axis: RowAxis): Float32Array {
        const below = background(power, this.look!.normalisation, axis.circular);
        return power.map((p, i) => 10 * Math.log10(Math.max(p, 1e-30) / Math.max(below[i], 1e-30)));
    }

    private columnsFor(row: Row, axis: RowAxis): Columns {
        const { shown, frame } = this.look!;
        const { heading_deg, axis_az_deg, axis_depression_deg } = row.header;
        const turned = frame === "true" ? `${heading_deg} ${axis_az_deg} ${axis_depression_deg}` : "";
        if (!this.axisIds.has(axis)) this.axisIds.set(axis, ++this.axisCount);
        const key = `${this.axisIds.get(axis)} ${turned}`;
        let columns = this.columns.get(key);
        if (!columns) {
            if (this.columns.size > 32) this.columns.clear();
            columns = columnsOf(axis, row.header, frame, shown, this.width);
            this.columns.set(key, columns);
        }
        return columns;
    }

    /** Copies changed tiles, places new ones, and moves the strip. */
    private show(): void {
        if (!(Math.abs(this.topBin - this.originBin) < STRIP_LINES)) this.originBin = this.topBin;
        this.strip.style.transform = `translateY(${(this.topBin - this.originBin) / devicePixelRatio}px)`;
        const newest = Math.floor(this.topBin / TILE_LINES);
        for (let block = newest; block > newest - this.tiles.length; block--) {
            const tile = this.tiles[modulo(block, this.tiles.length)];
            const top = this.originBin - (block * TILE_LINES + TILE_LINES - 1);
            if (tile.top !== top) tile.canvas.style.top = `${top / devicePixelRatio}px`;
            tile.top = top;
            if (!tile.changed) continue;
            this.brush.putImageData(tile.image, 0, 0);
            tile.context.transferFromImageBitmap(this.brush.canvas.transferToImageBitmap());
            tile.changed = false;
        }
    }
}

function makeTile(width: number): Tile {
    const canvas = element("canvas", { width: String(width), height: String(TILE_LINES) });
    Object.assign(canvas.style, { width: `${width / devicePixelRatio}px`, height: `${TILE_LINES / devicePixelRatio}px` });
    const image = new ImageData(width, TILE_LINES);
    const context = canvas.getContext("bitmaprenderer", { alpha: false })!; // opaque, so that nothing is blended with
    // what is below
    return { canvas, context, image, pixels: new Uint32Array(image.data.buffer), top: NaN, changed: false };
}

/** Makes the bitmaps of tiles. */
function makeBrush(width: number): OffscreenCanvasRenderingContext2D {
    return new OffscreenCanvas(width, TILE_LINES).getContext("2d", { alpha: false, willReadFrequently: true })!;
}

function modulo(a: number, n: number): number {
    return ((a % n) + n) % n;
}

/** Fills from one place to another as far as they are within the line. */
function span(line: Uint32Array, low: number, high: number, colour: number): void {
    line.fill(colour, Math.max(0, Math.round(low)), Math.max(0, Math.round(high)));
}

/** At both margins; the data between them stay as received. */
function tick(line: Uint32Array, colour: number): void {
    const width = Math.min(Math.ceil(line.length * TICK_SHARE), Math.round(TICK_PX * devicePixelRatio));
    line.fill(colour, 0, width);
    line.fill(colour, line.length - width);
}
