// SPDX-License-Identifier: GPL-3.0-or-later
// How smooth the record is with 20 windows a second of 720 directions: what a new row costs, and how far apart
// the browser's frames are. Figures for docs/dashboard.md; nothing is judged here.
import { readdirSync, readFileSync } from "node:fs";
import { loadavg } from "node:os";
import type { Page } from "playwright-core";
import { Chain, closeBrowser, openBrowser, sleep, until } from "../e2e/chain.js";

const SECONDS = Number(process.argv[2] ?? 20);
const SIZES: [number, number][] = [[1280, 720], [3840, 2160]];
const RUN = { fs_hz: 4000, hop: 200, scan: ", scan: {start_deg: 0, stop_deg: 179.75, step_deg: 0.25}" };

/** The time between two frames of the browser, in ms. */
async function intervals(page: Page, seconds: number): Promise<number[]> {
    return page.evaluate(
        (ms) =>
            new Promise<number[]>((done) => {
                const all: number[] = [];
                let before = performance.now();
                const end = before + ms;
                const step = (now: number) => {
                    all.push(now - before);
                    before = now;
                    if (now < end) requestAnimationFrame(step);
                    else done(all.slice(1));
                };
                requestAnimationFrame(step);
            }),
        1000 * seconds,
    );
}

/** Processor time of the browser's processes so far, in s: does not depend on other processes. */
function browserTime_s(): number {
    const stats = readdirSync("/proc").filter((name) => /^\d+$/.test(name)).flatMap((pid) => {
        try {
            const [head, rest] = readFileSync(`/proc/${pid}/stat`, "utf8").split(/\) (?=. )/);
            const fields = rest.split(" "); // from the state on
            const isBrowser = /chrom/.test(head);
            return [{ pid: Number(pid), parent: Number(fields[1]), ticks: isBrowser ? Number(fields[11]) + Number(fields[12]) : 0 }];
        } catch {
            return []; // It has just ended.
        }
    });
    const ours = new Set([process.pid]);
    for (let grown = true; grown; ) {
        grown = false;
        for (const { pid, parent } of stats) if (ours.has(parent) && !ours.has(pid)) grown = ours.add(pid).size > 0;
    }
    return stats.reduce((sum, { pid, ticks }) => sum + (ours.has(pid) ? ticks : 0), 0) / 100;
}

function shares(values: number[]): string {
    const sorted = Float64Array.from(values).sort();
    const at = (share: number) => sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))].toFixed(0).padStart(4);
    return `median ${at(0.5)}  95 % ${at(0.95)}  99 % ${at(0.99)}  most ${at(1)}`;
}

await openBrowser(false);
const chain = await Chain.start({ hop: RUN.hop, scan: RUN.scan, mvdr: RUN.scan });
try {
    for (const [width, height] of SIZES) {
        const page = await chain.open({ span_s: 60 }, width, height);
        await until("data are drawn", () => page.evaluate("sonard.store.cbf.rows.length > 200"));
        await sleep(5000);
        await page.evaluate("sonard.frames.length = 0");
        const before = (await page.evaluate("sonard.store.cbf.last.header.window")) as number;
        const began_s = browserTime_s();
        const between = await intervals(page, SECONDS);
        const after = (await page.evaluate("sonard.store.cbf.last.header.window")) as number;
        const used_s = browserTime_s() - began_s;
        const [drawn, directions, dropped] = (await page.evaluate(
            "[sonard.frames, sonard.store.cbf.last.data.length, sonard.store.dropped]",
        )) as [number[], number, number];
        console.log(`${width} x ${height}: ${((after - before) / SECONDS).toFixed(1)} windows/s of ${directions} directions, rows left out ${dropped}, load ${loadavg()[0].toFixed(1)}`);
        console.log(`  processor: ${((100 * used_s) / SECONDS).toFixed(0)} % of one, ${((1000 * used_s) / (after - before)).toFixed(1)} ms a window, ${((1000 * used_s) / drawn.length).toFixed(1)} ms a picture, of which ${(drawn.length / SECONDS).toFixed(1)} a second`);
        console.log(`  drawing, ms:          ${shares(drawn)}`);
        console.log(`  between frames, ms:   ${shares(between)}`);
        await page.context().close();
    }
} finally {
    await chain.stop();
    await closeBrowser();
}
