// SPDX-License-Identifier: GPL-3.0-or-later
// The array as it lies in the water: each hydrophone at its place, its level as colour, its fault as a mark.
import { fitArray, placeIn, type ArrayFit, type ArrayPane } from "../arrayfit.js";
import { pixelText, shades, SHADES } from "../colour.js";
import { colourOf, element, fitCanvas, letter_px, setText } from "../dom.js";
import { decimalsFor, ticks } from "../format.js";
import { settings } from "../settings.js";
import type { ElementState } from "../status.js";

export interface Hydrophones {
    positions: Float32Array; // [channel][forward, right, down], m
    levels: number[]; // dB; NaN: unknown
    states: ElementState[];
    colour(state: ElementState): string; // of its mark
}

const LEAST_DB = 6; // smallest range of the colours

export class ArrayDrawing {
    private canvas = element("canvas");
    private field = element("div", { class: "field" }, [this.canvas]);
    private low = element("span");
    private high = element("span");
    private bar = element("canvas", { class: "bar", width: "128", height: "1" });
    readonly root: HTMLElement;
    private fit: ArrayFit | null = null;
    private shown: Hydrophones | null = null;

    /** read gets the channel under the pointer, or null. */
    constructor(read: (channel: number | null) => void) {
        const scale = element("span", { class: "scale" }, [
            "● in order  ◉ faulty, used  ⊗ taken out automatically  ⊘ masked by hand", this.low, this.bar, this.high]);
        const head = element("header", {}, [element("h2", {}, ["Array"]), scale]);
        this.root = element("section", { class: "panel", "data-panel": "array" }, [head, this.field]);
        this.canvas.onpointermove = (event) => read(this.under(event));
        this.canvas.onpointerleave = () => read(null);
    }

    get size(): [number, number] {
        return [this.field.clientWidth, this.field.clientHeight];
    }

    draw(shown: Hydrophones): void {
        this.shown = shown;
        const [width, height] = this.size;
        const letter = letter_px();
        fitCanvas(this.canvas, width, height);
        const context = this.canvas.getContext("2d")!;
        context.setTransform(devicePixelRatio, 0, 0, devicePixelRatio, 0, 0);
        context.clearRect(0, 0, width, height);
        context.font = `${0.8 * letter}px ${colourOf("--letters")}`;
        const place = { left: 4.5 * letter, top: 0.5 * letter, width: width - 5.5 * letter, height: height - 3.4 * letter };
        this.fit = fitArray(shown.positions, place, 1.2 * letter, 0.8 * letter);
        if (!this.fit) return;
        const { side, plan } = this.fit;
        this.drawPane(context, side, 2, "side: down", letter);
        this.drawPane(context, plan, 1, "plan: right", letter);
        this.drawForward(context, letter);
    }

    /** Where a channel's hydrophone is drawn on the plan; for the page's tests too. */
    placeOf(channel: number): [number, number] | null {
        const { fit, shown } = this;
        if (!fit || !shown || Number.isNaN(shown.positions[3 * channel])) return null;
        return placeIn(fit, fit.plan, shown.positions[3 * channel], shown.positions[3 * channel + 1]);
    }

    private drawPane(context: CanvasRenderingContext2D, pane: ArrayPane, coordinate: 1 | 2, title: string, letter: number): void {
        const { left, top, width, height } = pane.place;
        context.fillStyle = colourOf("--ground");
        context.fillRect(left, top, width, height);
        const values = ticks(pane.low, pane.high, height / (2 * letter));
        const decimals = decimalsFor(values.length > 1 ? values[1] - values[0] : 1);
        context.textAlign = "right";
        context.textBaseline = "middle";
        for (const value of values) {
            const [, y] = placeIn(this.fit!, pane, 0, value);
            context.fillStyle = colourOf("--edge");
            context.fillRect(left, y, width, 1);
            context.fillStyle = colourOf("--dim");
            context.fillText(value.toFixed(decimals), left - 6, Math.max(top + 0.5 * letter, Math.min(top + height - 0.5 * letter, y)));
        }
        context.textAlign = "left";
        context.textBaseline = "top";
        context.fillText(`${title} ↓`, left + 6, top + 4);
        this.drawHydrophones(context, pane, coordinate, letter);
    }

    private drawForward(context: CanvasRenderingContext2D, letter: number): void {
        const { forward, plan } = this.fit!;
        const { left, top, width, height } = plan.place;
        const values = ticks(forward[0], forward[1], width / (5 * letter));
        const decimals = decimalsFor(values.length > 1 ? values[1] - values[0] : 1);
        context.fillStyle = colourOf("--dim");
        context.textAlign = "center";
        context.textBaseline = "top";
        for (const value of values) {
            const [x] = placeIn(this.fit!, plan, value, 0);
            context.fillRect(x, top + height, 1, 4);
            context.fillText(value.toFixed(decimals), x, top + height + 5);
        }
        context.fillText("forward, m →", left + width / 2, top + height + 1.6 * letter);
    }

    private drawHydrophones(context: CanvasRenderingContext2D, pane: ArrayPane, coordinate: 1 | 2, letter: number): void {
        const { positions, levels, states } = this.shown!;
        const [low, high] = rangeOf(levels, states);
        const table = shades(settings.palette);
        const radius = Math.max(2, Math.min(0.55 * letter, 0.35 * this.spacing_px()));
        for (let c = 0; c < states.length; c++) {
            if (Number.isNaN(positions[3 * c])) continue;
            const [x, y] = placeIn(this.fit!, pane, positions[3 * c], positions[3 * c + coordinate]);
            const shade = Math.floor(((levels[c] - low) / (high - low)) * SHADES);
            const fill = Number.isFinite(shade) ? pixelText(table[Math.max(0, Math.min(SHADES - 1, shade))]) : colourOf("--edge");
            drawMark(context, x, y, radius, states[c], fill, this.shown!.colour(states[c]));
        }
        this.drawScale(low, high, table);
    }

    private drawScale(low: number, high: number, table: Uint32Array): void {
        const pixels = new ImageData(this.bar.width, 1);
        new Uint32Array(pixels.data.buffer).forEach((_, i, out) => (out[i] = table[Math.floor((i * SHADES) / out.length)]));
        this.bar.getContext("2d")!.putImageData(pixels, 0, 0);
        setText(this.low, low.toFixed(0));
        setText(this.high, `${high.toFixed(0)} dB`);
    }

    /** Median distance between neighbours in the order of the channels. */
    private spacing_px(): number {
        const { positions, states } = this.shown!;
        const apart: number[] = [];
        for (let c = 1; c < states.length; c++) {
            const [a, b] = [3 * (c - 1), 3 * c];
            const distance = Math.hypot(positions[b] - positions[a], positions[b + 1] - positions[a + 1], positions[b + 2] - positions[a + 2]);
            if (distance > 0) apart.push(distance);
        }
        return (apart.sort((a, b) => a - b)[apart.length >> 1] ?? 1) * this.fit!.px_per_m;
    }

    private under(event: PointerEvent): number | null {
        const { fit, shown } = this;
        if (!fit || !shown) return null;
        const frame = this.canvas.getBoundingClientRect();
        const [px, py] = [event.clientX - frame.left, event.clientY - frame.top];
        const onSide = py < fit.plan.place.top;
        let [best, least] = [-1, 3 * letter_px()];
        for (let c = 0; c < shown.states.length; c++) {
            const other = shown.positions[3 * c + (onSide ? 2 : 1)];
            const [x, y] = placeIn(fit, onSide ? fit.side : fit.plan, shown.positions[3 * c], other);
            const apart = Math.hypot(x - px, y - py);
            if (apart < least) [best, least] = [c, apart];
        }
        return best < 0 ? null : best;
    }
}

/** Of hydrophones without faults, because a dead one would widen the range. */
function rangeOf(levels: number[], states: ElementState[]): [number, number] {
    const good = levels.filter((level, c) => Number.isFinite(level) && !states[c].fault && !states[c].masked);
    const known = good.length ? good : levels.filter(Number.isFinite);
    if (!known.length) return [0, LEAST_DB];
    const [low, high] = [Math.floor(known.reduce((a, b) => Math.min(a, b))), Math.ceil(known.reduce((a, b) => Math.max(a, b)))];
    const aside = Math.max(0, Math.ceil((LEAST_DB - (high - low)) / 2));
    return [low - aside, high + aside];
}

/** A ring means faulty. Hollow means not in the beams: with a cross if masked automatically, with a stroke if masked by
 * hand. */
function drawMark(context: CanvasRenderingContext2D, x: number, y: number, r: number, state: ElementState, fill: string, mark: string): void {
    const disc = (radius: number) => {
        context.beginPath();
        context.arc(x, y, radius, 0, 2 * Math.PI);
    };
    disc(r);
    context.fillStyle = state.masked ? colourOf("--ground") : fill;
    context.fill();
    if (!state.masked && !state.fault) return;
    context.strokeStyle = mark;
    context.lineWidth = Math.max(1.5, r / 4);
    disc(state.masked ? r : r + 1.5 * context.lineWidth);
    const d = r * Math.SQRT1_2;
    if (state.masked) context.moveTo(x - d, y + d), context.lineTo(x + d, y - d);
    if (state.masked === "automatically") context.moveTo(x - d, y - d), context.lineTo(x + d, y + d);
    context.stroke();
    context.lineWidth = 1;
}
