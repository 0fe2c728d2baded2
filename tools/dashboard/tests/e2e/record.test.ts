// SPDX-License-Identifier: GPL-3.0-or-later
// The bearing-time record against the simulated truth.
import assert from "node:assert/strict";
import { after, test } from "node:test";
import type { Sight } from "../../src/page/sight.js";
import { Chain, closeBrowser, drawn, lineOf, picture, readings, rgb, SHIP_DEG, until } from "./chain.js";

after(closeBrowser);

const PLAIN = { palette: "grey", automatic: false, low_db: 40, high_db: 120, marks: false, tracks: false, span_s: 15 };
const GAP = [225, 30, 40];
const EMPTY = [10, 14, 20];
// Frames of 256 samples at 4 kHz: 15.625 a second. This gap is 3.2 s long.
const FAULTS = "\nfaults: [{kind: drop, frame: 100, count: 50}]\n";

test("the drawn peak stands at the ship, and the cursor reads what the message carried", async () => {
    const chain = await Chain.start();
    try {
        const messages = chain.listen("cbf.azimuth");
        const page = await chain.open(PLAIN);
        await until("twenty windows are drawn", () => page.evaluate("sonard.store.cbf.rows.length > 20"));
        await page.keyboard.press(" ");
        await drawn(page);
        for (const panel of ["cbf", "mvdr"]) {
            const shot = await picture(page, panel);
            const line = Array.from({ length: shot.width }, (_, x) => rgb(shot, x, 10)[0]);
            const brightest = Math.max(...line);
            const columns = line.flatMap((value, x) => (value === brightest ? [x] : []));
            const [left, right] = [columns[0], columns[columns.length - 1]]; // of the direction nearest to the ship
            const place = ((SHIP_DEG - shot.shown.low) / (shot.shown.high - shot.shown.low)) * shot.width - 0.5;
            assert.ok(left - 1 <= place && place <= right + 1, `${panel}: peak at ${left}..${right}, the ship at ${place}`);
            assert.ok(right - left < 5, `${panel}: the peak is ${right - left + 1} pixels wide`);
        }
        for (const text of await readings(page, 12)) {
            const [, angle, level, window] = /([\d.]+) deg.*· {2}(-?[\d.]+) dB re 1 µPa².*window (\d+)/.exec(text)!;
            const { header, data } = messages.get(Number(window))!;
            const angles = header.axes[0].values!;
            const column = angles.findIndex((a) => a.toFixed(2) === angle);
            assert.ok(column >= 0, `${angle} is no direction of the message`);
            assert.equal(level, (10 * Math.log10(data[column])).toFixed(2), text);
        }
    } finally {
        await chain.stop();
    }
});

test("a gap is drawn as a gap, and nowhere else", async () => {
    const chain = await Chain.start({ scene: FAULTS });
    try {
        const messages = chain.listen("cbf.azimuth");
        const page = await chain.open(PLAIN);
        await until("the gap is over", () => page.evaluate("sonard.store.cbf.last?.header.sample_index > 170 * 256"));
        const first = [...messages.values()][0].header;
        const origin_ms = first.utc_ns! / 1e6 - first.sample_index! / 4;
        await page.keyboard.press(" ");
        await page.evaluate((top_ms) => {
            const { sight } = (window as unknown as { sonard: { sight: Sight } }).sonard;
            sight.frozen!.top_ms = top_ms; // as a hand drags it: the gap stays in the picture however late this is
            sight.changed();
        }, origin_ms + (170 * 256) / 4);
        await drawn(page);
        const shot = await picture(page, "cbf");
        const at = (sample: number, x: number) => rgb(shot, x, lineOf(shot, origin_ms + sample / 4)).join();
        const isTicked = (sample: number) => [2, shot.width - 3].every((x) => at(sample, x) === GAP.join());
        const isEmpty = (sample: number) => [20, shot.width >> 1, shot.width - 21].every((x) => at(sample, x) === EMPTY.join());
        // Windows of 1024 samples that lie in the gap of samples 25600 .. 38400 were never published.
        for (let sample = 26000; sample < 37800; sample += 200)
            assert.ok(isTicked(sample) && isEmpty(sample), `sample ${sample} lies in the gap: red at the margins, nothing between them`);
        for (const sample of [22000, 24000, 40500, 42000]) assert.ok(!isTicked(sample) && !isEmpty(sample), `sample ${sample} lies beside it`);
        const published = [...messages.values()].map(({ header }) => header.sample_index!);
        assert.ok(!published.some((sample) => sample > 25600 && sample < 38400), "the daemon published a window of the gap");
    } finally {
        await chain.stop();
    }
});
