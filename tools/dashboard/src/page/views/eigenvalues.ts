// SPDX-License-Identifier: GPL-3.0-or-later
// Eigenvalues of the MVDR's covariance: over frequency, a curve for each, and next to them those of one bin. Those
// counted as sources are bright.
import uPlot from "uplot";
import { nearest } from "../../shared/protocol.js";
import { axisStyle, curve, fitPlot } from "../curves.js";
import { colourOf, element, letter_px, setText } from "../dom.js";
import { Empty, waitingText } from "../empty.js";
import { fixed, referenceOf } from "../format.js";
import { levelsOf, modesShown, type ModeLevels } from "../modes.js";
import type { Latest } from "../store.js";
import type { Context, View } from "./view.js";

const TOPIC = "mvdr.eigenvalues";
const EVERY_MS = 200;

export class EigenvaluesView implements View {
    readonly name = "eigenvalues";
    readonly title = "Eigenvalues";
    readonly root: HTMLElement;
    private overField = element("div", { class: "field", title: "a click selects the bin; a second click there selects the largest again" });
    private binField = element("div", { class: "field" });
    private empty = new Empty();
    private note = element("span", { class: "note" });
    private count = element("b", { class: "count" });
    private binTitle = element("span", { class: "note" });
    private readout = element("output", { class: "readout" });
    private over: uPlot | null = null; // over frequency
    private bin: uPlot | null = null; // over the number of the eigenvalue
    private made = ""; // the modes and unit for which the plots were made
    private drawn = "";
    private drawn_ms = -Infinity;
    private shown: (ModeLevels & { latest: Latest }) | null = null;
    private chosen_hz: number | null = null; // null: the bin with the largest eigenvalue

    constructor(private readonly context: Context) {
        const head = element("header", {}, [element("h2", {}, ["Eigenvalues"]), this.count, this.note]);
        const binHead = element("header", {}, [element("h2", {}, ["One bin"]), this.binTitle]);
        this.root = element("div", { class: "view now" }, [
            element("section", { class: "panel", "data-panel": "eigenvalues" }, [head, this.overField, this.readout]),
            element("section", { class: "panel", "data-panel": "bin" }, [binHead, this.binField,
                element("output", { class: "readout" }, ["bright: the median number of sources"])]),
        ]);
        this.overField.append(this.empty.root);
        this.overField.onclick = () => this.choose();
    }

    wants(): string[] {
        return [TOPIC];
    }

    refresh(): void {
        this.made = this.drawn = "";
    }

    draw(now_ms: number): void {
        const latest = this.context.store.latest.get(TOPIC);
        const { clientWidth, clientHeight } = this.overField;
        if (!latest || latest.data.length === 0) {
            this.clear();
            return;
        }
        const key = `${latest.header.run} ${latest.header.seq} ${clientWidth} ${clientHeight} ${this.chosen_hz}`;
        if (key === this.drawn || clientWidth < 10 || (now_ms - this.drawn_ms < EVERY_MS && this.over)) return;
        this.drawn = key;
        this.empty.say("");
        this.drawn_ms = now_ms;
        this.shown = { ...levelsOf(latest.data, latest.axes[0], latest.header.shape), latest };
        this.plot(this.shown);
        this.say(this.shown);
    }

    /** The bin whose eigenvalues are shown separately. */
    binShown({ frequencies, strongest }: ModeLevels): number {
        return this.chosen_hz === null ? strongest : nearest(frequencies, this.chosen_hz);
    }

    private clear(): void {
        setText(this.note, "no data yet");
        this.empty.say(waitingText(this.context.store, TOPIC, "mvdr.enabled is true"));
        setText(this.count, "");
        this.over?.destroy();
        this.bin?.destroy();
        this.over = this.bin = this.shown = null;
        this.made = this.drawn = "";
    }

    private plot(shown: ModeLevels & { latest: Latest }): void {
        const { levels, frequencies } = shown;
        const modes = modesShown(levels.length);
        const sources = shown.latest.header.sources?.median ?? 0;
        const made = JSON.stringify([levels.length, sources, shown.latest.header.unit, devicePixelRatio, letter_px()]);
        if (made !== this.made) {
            this.over?.destroy();
            this.bin?.destroy();
            this.over = this.makeOver(modes, sources, shown.latest.header.unit);
            this.bin = this.makeBin(shown.latest.header.unit);
            this.made = made;
        }
        fitPlot(this.over!, this.overField);
        fitPlot(this.bin!, this.binField);
        this.over!.setData([frequencies, ...modes.map((mode) => levels[mode])] as uPlot.AlignedData);
        const at = this.binShown(shown);
        const all = levels.map((level) => level[at]);
        const isSource = all.map((_, mode) => mode < Math.round(sources));
        this.bin!.setData([all.map((_, mode) => mode + 1), all, all.map((level, mode) => (isSource[mode] ? level : null))]);
    }

    private say({ latest, frequencies }: ModeLevels & { latest: Latest }): void {
        const { sources, window } = latest.header;
        setText(this.count, sources
            ? `sources: median ${fixed(sources.median, 0)}, most ${fixed(sources.most, 0)} (${sources.rule.replace(/_/g, " ")})`
            : "sources are not counted (mvdr.source_count)");
        setText(this.note, `window ${window}`);
        const hz = frequencies[this.binShown(this.shown!)].toFixed(1);
        setText(this.binTitle, this.chosen_hz === null ? `${hz} Hz, with the largest` : `${hz} Hz`);
    }

    private makeOver(modes: number[], sources: number, unit: string | null): uPlot {
        const letter = letter_px();
        const line = axisStyle();
        const colour = (mode: number) => colourOf(mode < Math.round(sources) ? "--mvdr" : "--mode");
        return new uPlot(
            {
                width: this.overField.clientWidth,
                height: this.overField.clientHeight,
                padding: [letter, 2.2 * letter, null, null],
                legend: { show: false },
                scales: { x: { time: false }, y: { range: () => this.shown?.limits ?? [0, 1] } },
                axes: [{ ...line, label: "frequency, Hz", size: 2.4 * letter, space: 5 * letter },
                    { ...line, label: referenceOf(unit), size: 3.6 * letter, space: 3 * letter }],
                series: [{}, ...modes.map((mode) => curve(`eigenvalue ${mode + 1}`, colour(mode)))],
                cursor: { drag: { x: false, y: false }, points: { show: false } },
                hooks: { setCursor: [(plot) => this.read(plot)] },
            },
            [[], ...modes.map(() => [])] as uPlot.AlignedData,
            this.overField,
        );
    }

    private makeBin(unit: string | null): uPlot {
        const letter = letter_px();
        const line = axisStyle();
        const dots = (label: string, stroke: string): uPlot.Series => ({ ...curve(label, stroke), points: { show: true, size: letter / 2.5, fill: stroke } });
        return new uPlot(
            {
                width: this.binField.clientWidth,
                height: this.binField.clientHeight,
                padding: [letter, 2.2 * letter, null, null],
                legend: { show: false },
                scales: { x: { time: false }, y: { range: () => this.shown?.limits ?? [0, 1] } },
                axes: [{ ...line, label: "number of the eigenvalue", size: 2.4 * letter, space: 3 * letter, incrs: [1, 2, 5, 10, 20, 50, 100, 200, 500] },
                    { ...line, label: referenceOf(unit), size: 3.6 * letter, space: 3 * letter }],
                series: [{}, dots("eigenvalues", colourOf("--dim")), dots("sources", colourOf("--mvdr"))],
                cursor: { show: false },
            },
            [[], [], []],
            this.binField,
        );
    }

    private choose(): void {
        const { idx } = this.over?.cursor ?? {};
        if (idx === null || idx === undefined || !this.shown) return;
        const hz = this.shown.frequencies[idx];
        this.chosen_hz = hz === this.chosen_hz ? null : hz;
    }

    private read({ cursor, data }: uPlot): void {
        const at = cursor.idx;
        if (!this.shown || at === null || at === undefined || (cursor.left ?? -1) < 0) {
            setText(this.readout, "");
            return;
        }
        const largest = this.shown.levels.slice(0, 4).map((level, mode) => `${mode + 1}: ${fixed(level[at], 1)}`);
        setText(this.readout, `${(data[0][at] as number).toFixed(1)} Hz  ·  ${largest.join("  ")} ${referenceOf(this.shown.latest.header.unit)}`);
    }
}
