// SPDX-License-Identifier: GPL-3.0-or-later
// The newest spectra around the compass: north, or the array's forward direction, is up.
import { bearingsOf, formatBearing, hasTrue, isCone, sidesOf, type Placed } from "../bearing.js";
import { colourOf, element, fitCanvas, letter_px, setText } from "../dom.js";
import { decibels } from "../format.js";
import type { Row } from "../record.js";

export class Polar {
    private canvas = element("canvas");
    private field = element("div", { class: "field" }, [this.canvas]);
    private note = element("span", { class: "note" });
    private caption = element("output", { class: "readout" });
    readonly root = element("section", { class: "panel", "data-panel": "polar" }, [
        element("header", {}, [element("h2", {}, ["Polar"]), this.note]),
        this.field,
        this.caption,
    ]);

    draw(rows: Row[], [low_db, high_db]: [number, number], followed: Placed | null): void {
        const { clientWidth: width, clientHeight: height } = this.field;
        fitCanvas(this.canvas, width, height);
        const context = this.canvas.getContext("2d")!;
        context.setTransform(devicePixelRatio, 0, 0, devicePixelRatio, 0, 0);
        context.clearRect(0, 0, width, height);
        const letter = letter_px();
        const radius = Math.max(1, Math.min(width, height) / 2 - 1.8 * letter);
        context.translate(width / 2, height / 2);
        context.font = `${0.8 * letter}px ${colourOf("--letters")}`;
        this.drawRings(context, radius, low_db, high_db, letter);
        for (const row of rows) this.drawSpectrum(context, row, radius, low_db, high_db);
        this.drawLines(context, rows[0], radius, followed);
        const { header } = rows[0];
        setText(this.note, hasTrue(header) ? "true, north up" : "array frame, forward up");
        const heading = header.heading_deg === null ? "" : `heading ${formatBearing(header.heading_deg)}; `;
        setText(this.caption, isCone(header) ? `${heading}port and starboard alike` : `${heading}rings every 10 dB`);
    }

    private drawRings(context: CanvasRenderingContext2D, radius: number, low_db: number, high_db: number, letter: number): void {
        context.strokeStyle = colourOf("--edge");
        context.fillStyle = colourOf("--dim");
        context.textAlign = "left";
        context.textBaseline = "middle";
        for (let db = 10 * Math.ceil((low_db + 1) / 10); db <= high_db; db += 10) {
            const r = (radius * (db - low_db)) / (high_db - low_db);
            circle(context, r);
            context.fillText(`${db}`, 3, -r);
        }
        circle(context, radius);
        context.textAlign = "center";
        for (let deg = 0; deg < 360; deg += 30) {
            const [x, y] = point(deg, radius);
            context.beginPath();
            context.moveTo(0, 0);
            context.lineTo(x, y);
            context.stroke();
            const [tx, ty] = point(deg, radius + 0.9 * letter);
            context.fillText(formatBearing(deg, 0), tx, ty);
        }
    }

    private drawSpectrum(context: CanvasRenderingContext2D, row: Row, radius: number, low_db: number, high_db: number): void {
        context.strokeStyle = colourOf(row.header.topic.startsWith("mvdr") ? "--mvdr" : "--cbf");
        context.lineWidth = letter_px() / 9;
        const sides = isCone(row.header) ? [0, 1] : [0];
        for (const side of sides) {
            context.beginPath();
            for (let i = 0; i < row.data.length; i++) {
                const bearing = bearingsOf(row.header, row.axis.values[i])[side];
                if (bearing === undefined) continue;
                const share = (decibels(row.data[i]) - low_db) / (high_db - low_db);
                context.lineTo(...point(bearing, radius * Math.max(0, Math.min(1, share))));
            }
            if (row.axis.circular) context.closePath();
            context.stroke();
        }
        context.lineWidth = 1;
    }

    /** The heading and the followed contact. */
    private drawLines(context: CanvasRenderingContext2D, row: Row, radius: number, followed: Placed | null): void {
        const { header } = row;
        context.strokeStyle = colourOf("--text");
        if (header.heading_deg !== null) ray(context, header.heading_deg, radius, [8, 4]);
        context.strokeStyle = colourOf("--follow");
        if (followed) for (const bearing of sidesOf(header, followed)) ray(context, bearing, radius, [3, 5]);
    }
}

/** North is up, east is right. */
function point(bearing_deg: number, r: number): [number, number] {
    const turn = (bearing_deg * Math.PI) / 180;
    return [r * Math.sin(turn), -r * Math.cos(turn)];
}

function circle(context: CanvasRenderingContext2D, r: number): void {
    context.beginPath();
    context.arc(0, 0, r, 0, 2 * Math.PI);
    context.stroke();
}

function ray(context: CanvasRenderingContext2D, bearing_deg: number, r: number, dash: number[]): void {
    context.setLineDash(dash);
    context.beginPath();
    context.moveTo(0, 0);
    context.lineTo(...point(bearing_deg, r));
    context.stroke();
    context.setLineDash([]);
}
