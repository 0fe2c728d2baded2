// SPDX-License-Identifier: GPL-3.0-or-later
// The style of curves: letters, grid and lines that scale with the page.
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import { colourOf, letter_px } from "./dom.js";

export function letters(px = letter_px()): string {
    return `${0.8 * px}px ${colourOf("--letters")}`;
}

export function axisStyle(): uPlot.Axis {
    const stroke = colourOf("--dim");
    const edge = { stroke: colourOf("--edge"), width: 1 };
    return { stroke, font: letters(), labelFont: letters(), labelSize: 1.6 * letter_px(), grid: edge, ticks: edge };
}

export function curve(label: string, stroke: string): uPlot.Series {
    return { label, stroke, width: letter_px() / 9, spanGaps: true, points: { show: false } };
}

/** Fits the plot to the size of its field. */
export function fitPlot(plot: uPlot, { clientWidth: width, clientHeight: height }: HTMLElement): void {
    if (plot.width !== width || plot.height !== height) plot.setSize({ width, height });
}
