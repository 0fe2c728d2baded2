// SPDX-License-Identifier: GPL-3.0-or-later
// A beam of the daemon is heard in the browser.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { after, test } from "node:test";
import { Chain, closeBrowser, openBrowser, sleep, until } from "./chain.js";

after(closeBrowser);

const panel = "#side .pad:last-child";

test("a page plays the chosen beam, and the daemon makes beams only meanwhile", async () => {
    const chain = await Chain.start({ config: "beam: {az_deg: [60, 120]}\n" });
    try {
        const page = await chain.open({});
        const beams = () => page.$$eval(`${panel} option`, (options) => options.map(({ textContent }) => textContent));
        const text = () => page.$eval(panel, ({ textContent }) => textContent ?? "");
        await until("data come", () => page.evaluate("sonard.store.cbf.rows.length > 3"));
        assert.equal(await page.evaluate("sonard.listen.played_s"), 0);
        assert.ok(!(await page.evaluate("sonard.store.latest.has('beam.audio')")), "nothing is heard before it was asked for");
        await page.click(`${panel} button`);
        await until("sound is played", () => page.evaluate("sonard.listen.played_s > 2"));
        assert.deepEqual(await beams(), ["az60", "az120"]);
        await until("the first beam is named", async () => /az60 at 60\.0°, \d\.\d s ahead/.test(await text()));
        await page.selectOption(`${panel} select`, "az120");
        await until("the other beam is named", async () => /az120 at 120\.0°/.test(await text()));
        const before = Number(await page.evaluate("sonard.listen.played_s"));
        await until("it is played", () => page.evaluate(`sonard.listen.played_s > ${before + 2}`));
        await page.keyboard.press("e");
        await until("it is silent", async () => (await text()).startsWith("listen "));
        const played = await page.evaluate("sonard.listen.played_s");
        const window = Number(await page.evaluate("sonard.store.cbf.last.header.window"));
        await until("ten windows more", () => page.evaluate(`sonard.store.cbf.last.header.window > ${window + 10}`));
        assert.equal(await page.evaluate("sonard.listen.played_s"), played);
        assert.ok(!(await page.evaluate("sonard.store.latest.has('beam.audio')")));
    } finally {
        await chain.stop();
    }
});

/** The browser's process that has the sound card. */
async function soundCard(): Promise<number> {
    const session = await (await openBrowser()).newBrowserCDPSession();
    const { processInfo } = await session.send("SystemInfo.getProcessInfo");
    return processInfo.find(({ id }) => readFileSync(`/proc/${id}/cmdline`, "utf8").includes("AudioService"))!.id;
}

test("sound goes on after the sound card stood still, and after it was lost", async () => {
    const chain = await Chain.start({ config: "beam: {az_deg: [60]}\n" });
    try {
        const page = await chain.open({});
        const goesOn = async (when: string) => {
            const before = Number(await page.evaluate("sonard.listen.played_s"));
            await until(`sound is played ${when}`, () => page.evaluate(`sonard.listen.played_s > ${before + 3}`));
        };
        await until("data come", () => page.evaluate("sonard.store.cbf.rows.length > 3"));
        await page.keyboard.press("e");
        await goesOn("at first");
        const card = await soundCard();
        process.kill(card, "SIGSTOP");
        await sleep(3000);
        process.kill(card, "SIGCONT");
        await goesOn("after it stood still");
        process.kill(card, "SIGKILL");
        await goesOn("after it was lost");
        await until("the beam is named", async () => /az60 at 60\.0°/.test((await page.$eval(panel, ({ textContent }) => textContent ?? ""))));
    } finally {
        await chain.stop();
    }
});

test("a daemon without beams is told what it needs", async () => {
    const chain = await Chain.start();
    try {
        const page = await chain.open({});
        await until("data come", () => page.evaluate("sonard.store.cbf.rows.length > 3"));
        await page.keyboard.press("e");
        await until("the page says why", async () => (await page.$eval(panel, ({ textContent }) => textContent ?? "")).includes("needs beam.az_deg, beam.bearing_deg or beam.track"));
    } finally {
        await chain.stop();
    }
});
