// SPDX-License-Identifier: GPL-3.0-or-later
// The newest azimuth spectra on one scale in dB, and around the compass; next to them MUSIC, which has no level, on
// its own scale.
import uPlot from "uplot";
import type { RowHeader } from "../../shared/frames.js";
import { angleTitle, bearingsOf, formatBearing, hasTrue, isCone, turn } from "../bearing.js";
import { axisStyle, curve, fitPlot, letters } from "../curves.js";
import { button, colourOf, element, letter_px, setText } from "../dom.js";
import { Empty, waitingText } from "../empty.js";
import { isStale, withHeading } from "../heading.js";
import { decibels, referenceOf } from "../format.js";
import { MUSIC, musicLimits, musicText } from "../music.js";
import { isCurrent, type Row } from "../record.js";
import { choose, settings } from "../settings.js";
import { Polar } from "./polar.js";
import type { Context, View } from "./view.js";

const STEP_DB = 5;
const EVERY_MS = 100; // a reader cannot follow a curve that changes faster

export class NowView implements View {
    readonly name = "now";
    readonly title = "Now";
    readonly root: HTMLElement;
    private field = element("div", { class: "field" });
    private readout = element("output", { class: "readout" });
    private note = element("span", { class: "note" });
    private legend = button("MUSIC", "", () => choose({ music: !settings.music }));
    private empty = new Empty();
    private plot: uPlot | null = null;
    private polar = new Polar();
    private drawn = "";
    private drawn_ms = -Infinity;
    private made = ""; // the axes for which the plot was made
    private rows: Row[] = [];
    private music: Row | null = null;
    private limits: [number, number] = [0, 1];

    constructor(private readonly context: Context) {
        const legend = element("span", { class: "scale" }, [
            element("b", { style: "color: var(--cbf)" }, ["CBF"]),
            element("b", { style: "color: var(--mvdr)" }, ["MVDR"]),
            this.legend,
        ]);
        const head = element("header", {}, [element("h2", {}, ["Azimuth spectra"]), this.note, legend]);
        this.field.append(this.empty.root);
        this.root = element("div", { class: "view now" }, [
            element("section", { class: "panel", "data-panel": "now" }, [head, this.field, this.readout]),
            this.polar.root,
        ]);
    }

    wants(): string[] {
        return settings.music ? [MUSIC] : [];
    }

    refresh(): void {
        this.drawn = "";
        this.plot?.destroy();
        this.plot = null;
    }

    draw(now_ms: number): void {
        if (now_ms - this.drawn_ms < EVERY_MS && this.plot) return;
        const { store } = this.context;
        const { newest } = store;
        const current = (row: Row | undefined): row is Row => row !== undefined && newest !== undefined && isCurrent(row, newest);
        this.rows = [store.cbf.last, store.mvdr.last].filter(current);
        this.music = settings.music ? ([store.music.last].find(current) ?? null) : null;
        this.showLegend();
        const { clientWidth, clientHeight } = this.field;
        this.empty.say(this.rows.length ? "" : waitingText(store, "cbf.azimuth"));
        if (this.rows.length === 0 || clientWidth < 10) return;
        const key = JSON.stringify([store.cbf.version, store.mvdr.version, store.music.version, this.rows.map((r) => r.marks.length), clientWidth, clientHeight,
            this.context.followed()?.az_deg]);
        if (key === this.drawn) return;
        this.drawn = key;
        this.drawn_ms = now_ms;
        this.limits = limitsOf(this.rows);
        const made = JSON.stringify([isCone(this.header), hasTrue(this.header), isStale(this.rows[0]), this.music !== null, letter_px()]);
        if (made !== this.made) this.refresh();
        this.made = made;
        this.drawn = key;
        if (!this.plot) this.plot = this.makePlot(clientWidth, clientHeight);
        fitPlot(this.plot, this.field);
        this.plot.setData(this.dataOf());
        setText(this.note, `${referenceOf(this.rows[0].header.unit)} · window ${this.rows[0].header.window}`);
        this.polar.draw(this.rows, this.limits, this.context.followed());
    }

    /** Of the first spectrum. Without a current heading it gets the last one, and its bearings are grey. */
    private get header(): RowHeader {
        return withHeading(this.rows[0].header, this.context.store.heading);
    }

    private showLegend(): void {
        const { short, full } = musicText(this.music);
        setText(this.legend, settings.music ? short : "MUSIC");
        this.legend.title = `${full} (m)`;
        this.legend.setAttribute("aria-pressed", String(settings.music));
    }

    /** All spectra on one axis; each has its own directions. */
    private dataOf(): uPlot.AlignedData {
        const made = ["cbf", "mvdr"].map((maker) => this.rows.find((r) => r.header.topic.startsWith(maker)));
        const tables = [...made, this.music].map((row): uPlot.AlignedData => {
            if (!row) return [[], []];
            const points = Array.from(row.axis.values, (angle, i) => ({ at: this.place(row, angle), db: row.data[i] > 0 ? decibels(row.data[i]) : null }));
            points.sort((a, b) => a.at - b.at);
            return [points.map((p) => p.at), points.map((p) => p.db)];
        });
        return uPlot.join(tables);
    }

    /** The place of an angle on the horizontal axis. A line's angle is not converted, because it stands for two
     * bearings. */
    private place(row: Row, angle: number): number {
        const isTrue = settings.frame === "true" && hasTrue(row.header) && !isCone(row.header);
        return isTrue ? turn(bearingsOf(row.header, angle)[0]) : angle;
    }

    private makePlot(width: number, height: number): uPlot {
        const letter = letter_px();
        const line = axisStyle();
        const [row] = this.rows;
        const cone = isCone(row.header);
        const isTrue = settings.frame === "true" && hasTrue(row.header) && !cone;
        const label = isTrue ? "true bearing, deg" : angleTitle(row.header);
        const axes: uPlot.Axis[] = [
            { ...line, label, size: 2.4 * letter, space: 5 * letter, incrs: [0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 45, 60, 90] },
            { ...line, label: referenceOf(row.header.unit), size: 3.6 * letter, space: 3 * letter },
        ];
        if (cone && hasTrue(this.header)) {
            const stroke = isStale(row) ? colourOf("--stale") : line.stroke;
            const bearings = (_: uPlot, values: number[]) =>
                values.map((v) => bearingsOf(this.header, v).map((b) => formatBearing(Math.round(b), 0)).join("|"));
            axes.push({ ...line, stroke, side: 0, scale: "x", values: bearings, label: "true, right|left of the axis", size: 2 * letter,
                space: 5 * letter, incrs: axes[0].incrs, grid: { show: false } });
        }
        if (this.music) {
            const label = "MUSIC: dB over nothing, no level";
            axes.push({ ...line, stroke: colourOf("--music"), side: 1, scale: "music", label, size: 3.6 * letter, space: 3 * letter,
                grid: { show: false } });
        }
        const music = { ...curve("MUSIC", colourOf("--music")), scale: "music", dash: [0.6 * letter, 0.3 * letter] };
        return new uPlot(
            {
                width,
                height,
                padding: [null, 2.2 * letter, null, null],
                legend: { show: false },
                scales: { x: { time: false }, y: { range: () => this.limits }, music: { range: () => musicLimits(this.music) } },
                axes,
                series: [{}, curve("CBF", colourOf("--cbf")), curve("MVDR", colourOf("--mvdr")), music],
                cursor: { drag: { x: true, y: false } },
                hooks: { draw: [(plot) => this.label(plot)], setCursor: [(plot) => this.read(plot)] },
            },
            this.dataOf(),
            this.field,
        );
    }

    /** Labels the detections, the strongest first, one above another if they are close. */
    private label(plot: uPlot): void {
        const { ctx } = plot;
        const letter = letter_px() * devicePixelRatio;
        const taken: { x: number; y: number }[] = [];
        ctx.save();
        ctx.font = letters(letter);
        ctx.textAlign = "center";
        ctx.strokeStyle = colourOf("--field"); // an outline of the letters, so that curves do not run through them
        ctx.lineWidth = 0.25 * letter;
        const marks = this.rows.flatMap((row) => row.marks.map((mark) => ({ row, mark })));
        marks.sort((a, b) => b.mark.level_db - a.mark.level_db);
        for (const { row, mark } of marks) {
            const x = plot.valToPos(this.place(row, mark.az_deg), "x", true);
            let y = plot.valToPos(mark.level_db, "y", true) - 0.6 * letter;
            if (x < plot.bbox.left || x > plot.bbox.left + plot.bbox.width) continue;
            const isTaken = () => taken.some((t) => Math.abs(t.x - x) < 6 * letter && Math.abs(t.y - y) < 1.1 * letter);
            while (isTaken()) y -= 0.4 * letter;
            if (y < plot.bbox.top + letter) continue;
            taken.push({ x, y });
            ctx.fillStyle = colourOf(mark.source === "mvdr" ? "--mvdr" : "--cbf");
            // The level of a near contact is that at its range, above the far-field curve.
            const range = mark.range_m === null ? "" : ` at ${mark.range_m.toFixed(0)} m`;
            const text = `${mark.az_deg.toFixed(1)}° ${mark.level_db.toFixed(1)}${range}`;
            const inside = Math.min(x, ctx.canvas.width - ctx.measureText(text).width / 2);
            ctx.strokeText(text, inside, y);
            ctx.fillText(text, inside, y);
        }
        ctx.restore();
    }

    private read(plot: uPlot): void {
        const { left, idx } = plot.cursor;
        if (left === undefined || left < 0 || idx === null || idx === undefined) {
            setText(this.readout, "");
            return;
        }
        const angle = plot.data[0][idx];
        const [row] = this.rows;
        const sides = isCone(row.header) && hasTrue(row.header) ? bearingsOf(row.header, angle).map((b) => formatBearing(b)) : [];
        const level = (name: string, series: number, unit: string) => {
            const value = nearestKnown(plot.data[series], idx);
            return value === null ? "" : `${name} ${value.toFixed(2)} ${unit}`;
        };
        const unit = referenceOf(row.header.unit);
        const words = [`${angle.toFixed(2)} deg`, sides.length ? `true ${sides.join(" | ")}` : "", level("CBF", 1, unit), level("MVDR", 2, unit),
            level("MUSIC", 3, "dB over nothing")];
        setText(this.readout, words.filter(Boolean).join("  ·  "));
    }
}

/** The value at an index, or the nearest one if a spectrum with other directions has none there. */
function nearestKnown(values: ArrayLike<number | null | undefined>, at: number): number | null {
    for (let away = 0; away < values.length; away++) {
        const found = values[at - away] ?? values[at + away];
        if (found !== null && found !== undefined) return found;
    }
    return null;
}

/** From below the quietest tenth to above the loudest, in steps, so that the axis does not move. */
function limitsOf(rows: Row[]): [number, number] {
    const levels = Float64Array.from(rows.flatMap((row) => Array.from(row.data).filter((p) => p > 0).map(decibels))).sort();
    if (levels.length === 0) return [0, STEP_DB];
    const low = STEP_DB * Math.floor(levels[Math.floor(levels.length / 20)] / STEP_DB - 0.5);
    return [low, STEP_DB * Math.ceil(levels[levels.length - 1] / STEP_DB + 1)];
}
