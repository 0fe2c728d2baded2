// SPDX-License-Identifier: GPL-3.0-or-later
// Each hydrophone: its level, the fault that the daemon found, its share of missing samples, its place.
import { FAULT_COLOURS, MASKED, WELL } from "../colour.js";
import { colourOf, element, fitCanvas, letter_px, setText } from "../dom.js";
import { Empty, waitingText } from "../empty.js";
import { decibels, levelText, referenceOf, ticks } from "../format.js";
import { settings } from "../settings.js";
import { elementStates, statusOf, type ElementState } from "../status.js";
import { ArrayDrawing } from "./array.js";
import type { Context, View } from "./view.js";

const MOST = 8192; // channels; beyond that, messages of element.psd are too large

export class ElementsView implements View {
    readonly name = "elements";
    readonly title = "Elements";
    readonly root: HTMLElement;
    private canvas = element("canvas");
    private empty = new Empty();
    private field = element("div", { class: "field" }, [this.canvas, this.empty.root]);
    private note = element("span", { class: "note" });
    private readout = element("output", { class: "readout" });
    private array = new ArrayDrawing((channel) => this.tell(channel));
    private states: ElementState[] = [];
    private drawn = "";
    private pointed: number | null = null; // the channel under the pointer
    private box = { left: 0, top: 0, width: 1, height: 1 };

    constructor(private readonly context: Context) {
        const legend = [["in order", WELL], ...Object.entries(FAULT_COLOURS)].map(([name, colour]) =>
            element("span", {}, [element("b", { style: `color: ${colour}` }, ["■ "]), name]),
        );
        legend.push(element("span", {}, [element("b", { style: `color: ${MASKED}` }, ["□ "]), "masked"]));
        const head = element("header", {}, [element("h2", {}, ["Elements"]), this.note, element("span", { class: "scale" }, legend)]);
        this.root = element("div", { class: "view elements" }, [
            element("section", { class: "panel", "data-panel": "elements" }, [head, this.field, this.readout]),
            this.array.root,
        ]);
        this.canvas.onpointermove = (event) => this.read(event);
        this.canvas.onpointerleave = () => this.tell(null);
    }

    wants(): string[] {
        const status = statusOf(this.context.store);
        const sensors = (status?.elements?.judged ?? 0) + (status?.elements?.masked ?? 0);
        return sensors > MOST ? ["element.missing"] : ["element.level", "element.missing", "element.position"];
    }

    draw(): void {
        const { store } = this.context;
        const level = store.latest.get("element.level");
        const missing = store.latest.get("element.missing");
        const { clientWidth, clientHeight } = this.field;
        this.empty.say(level || missing ? "" : waitingText(store, "element.psd"));
        if (!level && !missing) {
            setText(this.note, "no data yet");
            return;
        }
        const position = store.latest.get("element.position");
        const seqs = [level, missing, position, store.status].map((latest) => latest?.header.seq);
        const key = JSON.stringify([seqs, clientWidth, clientHeight, this.array.size, settings.palette]);
        if (key === this.drawn || clientWidth < 10) return;
        this.drawn = key;
        fitCanvas(this.canvas, clientWidth, clientHeight);
        const band = level?.header.band_hz ?? [];
        const words = level ? [referenceOf(level.header.unit), band.length ? `${band[0].toFixed(0)} to ${band[1].toFixed(0)} Hz` : "",
            `window ${level.header.window}`] : ["too many channels for their spectra: missing samples only"];
        const power = level?.data ?? new Float32Array(missing!.data.length);
        const { states, complete } = elementStates(statusOf(store), power.length);
        if (!complete) words.push("more faults than the daemon lists by name");
        setText(this.note, words.filter(Boolean).join(" · "));
        this.states = states;
        const levels = Array.from(power, (p) => (p > 0 ? decibels(p) : NaN));
        this.drawBars(levels, missing?.data);
        if (position?.data.length === 3 * power.length) this.array.draw({ positions: position.data, levels, states, colour: colourOfState });
        this.tell(this.pointed);
    }

    private drawBars(levels: number[], missing: Float32Array | undefined): void {
        const context = this.canvas.getContext("2d")!;
        const letter = letter_px();
        const { clientWidth, clientHeight } = this.field;
        context.setTransform(devicePixelRatio, 0, 0, devicePixelRatio, 0, 0);
        context.clearRect(0, 0, clientWidth, clientHeight);
        context.font = `${0.8 * letter}px ${colourOf("--letters")}`;
        const [left, top] = [Math.round(4.5 * letter), Math.round(0.6 * letter)];
        this.box = { left, top, width: clientWidth - left - letter, height: clientHeight - top - 5.2 * letter };
        const known = levels.filter(Number.isFinite);
        const low = 5 * Math.floor(Math.min(...known, Infinity) / 5 - 0.5);
        const high = 5 * Math.ceil(Math.max(...known, -Infinity) / 5 + 0.5);
        if (known.length) this.drawLevels(context, levels, low, high);
        this.drawMissing(context, missing, letter);
        this.drawChannels(context, levels.length, letter);
    }

    private drawLevels(context: CanvasRenderingContext2D, levels: number[], low: number, high: number): void {
        const { left, top, width, height } = this.box;
        context.textAlign = "right";
        context.textBaseline = "middle";
        for (const db of ticks(low, high, height / (2.5 * letter_px()))) {
            const y = top + height * (1 - (db - low) / (high - low));
            context.fillStyle = colourOf("--edge");
            context.fillRect(left, y, width, 1);
            context.fillStyle = colourOf("--dim");
            context.fillText(String(db), left - 6, y);
        }
        const step = width / levels.length;
        levels.forEach((level, c) => {
            const share = Number.isFinite(level) ? (level - low) / (high - low) : 0;
            const [x, y] = [left + c * step, top + height * (1 - share)];
            const [w, h] = [Math.max(1, step * 0.8), Math.max(2, height * share)];
            context.fillStyle = context.strokeStyle = colourOfState(this.states[c]);
            if (this.states[c].masked) context.strokeRect(x + 0.5, y + 0.5, Math.max(0.5, w - 1), h - 1);
            else context.fillRect(x, y, w, h);
        });
    }

    private drawMissing(context: CanvasRenderingContext2D, missing: Float32Array | undefined, letter: number): void {
        const { left, top, width, height } = this.box;
        const y = top + height + 0.4 * letter;
        context.fillStyle = colourOf("--dim");
        context.textAlign = "right";
        context.textBaseline = "middle";
        context.fillText("missing", left - 6, y + 0.5 * letter);
        context.fillStyle = colourOf("--edge");
        context.fillRect(left, y, width, letter);
        if (!missing) return;
        context.fillStyle = colourOf("--bad");
        const step = width / missing.length;
        missing.forEach((share, c) => {
            if (share > 0) context.fillRect(left + c * step, y + letter * (1 - share), Math.max(1, step * 0.8), letter * share);
        });
    }

    private drawChannels(context: CanvasRenderingContext2D, count: number, letter: number): void {
        const { left, top, width, height } = this.box;
        const y = top + height + 1.9 * letter;
        context.fillStyle = colourOf("--dim");
        context.textAlign = "center";
        context.textBaseline = "top";
        for (const channel of ticks(0, count - 1, width / (4 * letter)).filter(Number.isInteger))
            context.fillText(String(channel), left + ((channel + 0.4) / count) * width, y);
        context.fillText("channel", left + width / 2, y + 1.3 * letter);
    }

    private read(event: PointerEvent): void {
        const frame = this.canvas.getBoundingClientRect();
        const channel = Math.floor(((event.clientX - frame.left - this.box.left) / this.box.width) * this.states.length);
        this.tell(channel);
    }

    /** Shows what is known of a channel; repeated with every drawing until the pointer moves. */
    private tell(channel: number | null): void {
        this.pointed = channel;
        const state = channel === null ? undefined : this.states[channel];
        if (channel === null || !state) {
            setText(this.readout, "");
            return;
        }
        const { latest } = this.context.store;
        const [level, missing, position] = ["level", "missing", "position"].map((name) => latest.get(`element.${name}`));
        const [x, y, z] = Array.from(position?.data.subarray(3 * channel, 3 * channel + 3) ?? []);
        const words = [
            `channel ${channel}`,
            level ? levelText(level.data[channel], level.header.unit) : "",
            missing ? `${(100 * missing.data[channel]).toFixed(1)} % missing` : "",
            position ? (Number.isNaN(x) ? "feeds no hydrophone" : `forward ${x.toFixed(2)} m, right ${y.toFixed(2)} m, down ${z.toFixed(2)} m`) : "",
            state.fault ?? "no fault found",
            state.masked ? `masked ${state.masked}` : "",
        ];
        setText(this.readout, words.filter(Boolean).join("  ·  "));
    }
}

function colourOfState(state: ElementState): string {
    return state.fault ? FAULT_COLOURS[state.fault] : state.masked ? MASKED : WELL;
}
