// SPDX-License-Identifier: GPL-3.0-or-later
// What the records show: power, or the daemon's ratios, which it computes only while a page wants them.
import assert from "node:assert/strict";
import { after, test } from "node:test";
import type { Page } from "playwright-core";
import { Chain, closeBrowser, drawn, picture, readings, rgb, SHIP_DEG, until, wantedBy, type Picture } from "./chain.js";

after(closeBrowser);

const PLAIN = { palette: "grey", automatic: false, low_db: 40, high_db: 120, ratio_low_db: -20, ratio_high_db: 40, marks: false, span_s: 15 };
const MARK = [235, 235, 235];
const CONTROL = 'select[title^="the records show"]';

/** The text in a panel without rows; empty if it has rows. */
function told(page: Page, panel: string): Promise<string> {
    return page.evaluate(`document.querySelector("[data-panel=${panel}] .empty:not([hidden])")?.textContent ?? ""`);
}

function windows(page: Page, topic: string): Promise<number[]> {
    return page.evaluate(`sonard.store.recordOf("${topic}").rows.map((row) => row.header.window)`);
}

/** The angles of the columns for which something holds. */
function anglesOf({ width, shown }: Picture, holds: (x: number) => boolean): number[] {
    const columns = Array.from({ length: width }, (_, x) => x).filter(holds);
    return columns.map((x) => shown.low + ((x + 0.5) / width) * (shown.high - shown.low));
}

test("ratios are computed while a page wants them, which sees rows from then on, and says so while there are none", async () => {
    const chain = await Chain.start();
    try {
        const status = chain.listen("status");
        const wanted = () => wantedBy(status).filter((topic) => /normalised|sped/.test(topic)).sort().join();
        const page = await chain.open(PLAIN);
        await until("data are drawn", () => page.evaluate("sonard.store.cbf.rows.length > 8"));
        await until("the status says what is wanted", () => wantedBy(status).includes("tracks"));
        assert.equal(wanted(), "");
        const [first] = await windows(page, "cbf.azimuth");

        chain.daemon!.kill("SIGSTOP");
        await page.keyboard.press(" ");
        await page.selectOption(CONTROL, "normalised");
        await until("a stopped record says when it begins", async () => /cbf\.normalised, which begins when the record goes on \(space\)\./.test(await told(page, "cbf")));
        assert.equal(await page.textContent("[data-panel=cbf] .scale"), "", "no range of another kind");
        await page.keyboard.press(" ");
        await until("the CBF's panel says what comes", async () =>
            /^Waiting for cbf\.normalised, which is computed from now on\. .* in output\.topics and the scan is at least three beams wide\.$/.test(await told(page, "cbf")));
        assert.match(await told(page, "mvdr"), /^Waiting for mvdr\.normalised, .* and mvdr\.enabled is true, and the scan/);
        chain.daemon!.kill("SIGCONT");
        for (const topic of ["cbf.normalised", "mvdr.normalised"]) await until(`${topic} comes`, async () => (await windows(page, topic)).length > 8);
        assert.ok((await windows(page, "cbf.normalised"))[0] > first, "nothing was computed before");
        await until("their panels have nothing more to say", async () => (await told(page, "cbf")) + (await told(page, "mvdr")) === "");
        await until("both are wanted", () => wanted() === "cbf.normalised,mvdr.normalised");

        const [began] = await windows(page, "mvdr.normalised");
        await page.keyboard.press("p");
        await until("the control says what is shown", async () => (await page.inputValue(CONTROL)) === "peaks");
        await until("the peaks come", async () => (await windows(page, "cbf.sped")).length > 8);
        await until("what is not shown is given up", () => wanted() === "cbf.sped,mvdr.normalised");
        assert.ok((await windows(page, "cbf.normalised")).length < 8, "its record has ended, but for rows that were on their way");
        assert.equal((await windows(page, "mvdr.normalised"))[0], began, "MVDR's record has the same topic, and goes on");
        assert.ok(await page.isDisabled('select[title^="normalisation"]'), "a ratio is not normalised again");

        const [peaks] = await windows(page, "cbf.sped");
        const later = await page.context().newPage();
        await later.addInitScript((kept) => localStorage.setItem("sonard-dashboard", kept), (await page.evaluate("localStorage['sonard-dashboard']")) as string);
        await later.goto(chain.address);
        await until("a page that is opened later shows the same, as far back", async () => (await windows(later, "cbf.sped"))[0] === peaks);
        assert.equal(await later.inputValue(CONTROL), "peaks");
        await later.close();

        for (const key of ["b", "3"]) await page.keyboard.press(key);
        const count = status.size;
        await until("three more statuses have come", () => status.size > count + 3);
        assert.equal(wanted(), "cbf.sped,mvdr.normalised", "also behind another view");
        for (const key of ["1", "p"]) await page.keyboard.press(key);
        await until("nothing but power is wanted", () => wanted() === "");
        await until("the control says it", async () => (await page.inputValue(CONTROL)) === "power");
        assert.ok((await windows(page, "cbf.sped")).length < 8);
        assert.equal((await windows(page, "cbf.azimuth"))[0], first, "the power's record was kept");
    } finally {
        await chain.stop();
    }
});

test("a ratio's peak stands at the ship with its marks and its track, and the cursor reads what the message carried", async () => {
    const chain = await Chain.start();
    try {
        const page = await chain.open(PLAIN);
        await until("data are drawn", () => page.evaluate("sonard.store.cbf.rows.length > 8"));
        await page.keyboard.press("+");
        const zoom = await page.evaluate("sonard.sight.shown");
        for (const [topic, over, most] of [["cbf.normalised", " over the noise around", 30], ["cbf.sped", ", peaks of each frequency", 12]] as const) {
            const messages = chain.listen(topic);
            await page.keyboard.press("p");
            await until(`${topic} is drawn`, async () => (await windows(page, topic)).filter((window) => messages.has(window)).length > 8);
            await until("a track is numbered at the ship", () => page.evaluate(`[...document.querySelectorAll("[data-panel=cbf] .lines .track")].some((name) => {
                const { low, high } = sonard.panels[0].shown();
                return Math.abs(low + (high - low) * parseFloat(name.style.left) / name.parentElement.clientWidth - ${SHIP_DEG}) < 2;
            })`));
            assert.deepEqual(await page.evaluate("sonard.sight.shown"), zoom, "the zoom stays");
            assert.deepEqual(await page.evaluate("sonard.panels[0].levels"), { low_db: -20, high_db: 40 });
            assert.ok((await page.textContent("[data-panel=cbf] .note"))!.startsWith(`dB${over}`));
            assert.equal(await page.textContent("[data-panel=cbf] .scale"), "-2040 dB");
            for (const key of ["l", " "]) await page.keyboard.press(key); // the line would hide the peak
            await drawn(page);
            for (const panel of ["cbf", "mvdr"]) {
                const shot = await picture(page, panel);
                const line = Array.from({ length: shot.width }, (_, x) => rgb(shot, x, 12)[0]);
                const peak = anglesOf(shot, (x) => line[x] === Math.max(...line));
                assert.ok(peak.every((angle) => Math.abs(angle - SHIP_DEG) < 2.5), `${topic}, ${panel}: peak at ${peak}`);
                await page.keyboard.press("d");
                await drawn(page);
                const marked = await picture(page, panel);
                const marks = anglesOf(marked, (x) => rgb(marked, x, 12).join() === MARK.join());
                for (const side of [-1, 1])
                    assert.ok(marks.some((angle) => side * (angle - SHIP_DEG) > 0 && side * (angle - SHIP_DEG) < 8), `${topic}, ${panel}: marks at ${marks}`);
                await page.keyboard.press("d");
            }
            for (const text of await readings(page, 12)) {
                const [, angle, window] = /([\d.]+) deg.*window (\d+)/.exec(text)!;
                const { header, data } = messages.get(Number(window))!;
                const value = data[header.axes[0].values!.findIndex((a) => a.toFixed(2) === angle)];
                const ratio = value > 0 ? `${(10 * Math.log10(value)).toFixed(2)} dB` : "zero";
                assert.ok(text.includes(`  ·  ${ratio}  ·  `), `${text}: the message has ${ratio}`);
            }
            await page.mouse.move(0, 0);
            await page.keyboard.press(" ");
            await page.keyboard.press("a");
            await until("levels are found", () => page.evaluate("sonard.panels[0].levels?.high_db !== 40"));
            const { low_db, high_db } = (await page.evaluate("sonard.panels[0].levels")) as { low_db: number; high_db: number };
            assert.ok(low_db >= -40 && low_db <= 1 && high_db >= low_db + 12 && high_db <= most, `${topic}: from ${low_db} to ${high_db} dB`);
            await page.evaluate(`sonard.settings.automatic = false`);
            await page.keyboard.press("l");
        }
        await page.keyboard.press("p");
        await until("power has its own range by hand", () => page.evaluate("sonard.panels[0].levels?.low_db === 40 && sonard.panels[0].levels.high_db === 120"));
    } finally {
        await chain.stop();
    }
});
