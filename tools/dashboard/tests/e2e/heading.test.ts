// A heading that is no longer received: true bearings turn grey, and the page says so.
import assert from "node:assert/strict";
import { after, test } from "node:test";
import { Chain, closeBrowser, sleep, until } from "./chain.js";

after(closeBrowser);

const HEADING_DEG = 140;

test("without a heading true bearings are grey and by the last one, until it is told again", async () => {
    const chain = await Chain.start({ navigation: "test" });
    let telling = true;
    const told = (async () => {
        while (telling) await Promise.all([chain.tellHeading(HEADING_DEG), sleep(200)]);
    })();
    try {
        const page = await chain.open({ frame: "true", span_s: 30 });
        const heading = () => page.evaluate("sonard.store.cbf.last?.header.heading_deg ?? null");
        const bearing = async () => Number(/\d+\.\d/.exec((await page.textContent("#side tbody tr td.bearing"))!)?.[0]);
        const colour = () => page.evaluate("getComputedStyle(document.querySelector('#side tbody tr td.bearing')).color");
        const shown = () => page.evaluate("sonard.panels[0].whole().high");
        await until("windows have the heading", async () => (await heading()) === HEADING_DEG && (await page.locator("#side tbody tr.stale").count()) === 0);
        await until("a contact is there", async () => Math.abs((await bearing()) - 200) < 1);
        await until("nothing is said of the heading", async () => !(await page.isVisible("#heading")));
        assert.equal(await shown(), 360, "true bearings");
        const fresh = await colour();

        telling = false;
        await told;
        await until("the page says that the heading is lost", () => page.isVisible("#heading"));
        assert.match((await page.textContent("#heading"))!, /^NO HEADING FOR [\d.]+ s\. Bearings are relative to the array; grey ones .* 140\.0 at \d\d:\d\d:\d\dZ$/);
        await until("the record turns to the array's bearings", async () => ((await shown()) as number) < 190);
        await until("the contact is grey", async () => (await page.locator("#side tbody tr.stale").count()) > 0);
        assert.ok(Math.abs((await bearing()) - 200) < 1, `${await bearing()}, by the last heading`);
        assert.notEqual(await colour(), fresh);
        const axis = () => page.evaluate(`(() => {
            const { data } = document.querySelector("[data-panel=cbf] .above").getContext("2d").getImageData(0, 0, 600, 12);
            let most = 0;
            for (let i = 0; i < data.length; i += 4) if (data[i + 3] > 200) most = Math.max(most, data[i]);
            return most; })()`) as Promise<number>;
        const grey = await axis();
        assert.ok(grey > 0 && grey < 0x70, `the letters of the true bearings are as bright as ${grey}`);
        await until("the data are alive", () => page.evaluate("!document.body.classList.contains('dead')"));

        telling = true;
        const again = (async () => {
            while (telling) await Promise.all([chain.tellHeading(HEADING_DEG + 20), sleep(200)]);
        })();
        await until("all is well again", async () => !(await page.isVisible("#heading")) && Math.abs((await bearing()) - 220) < 1);
        assert.equal(await page.locator("#side tbody tr.stale").count(), 0);
        telling = false;
        await again;
    } finally {
        telling = false;
        await chain.stop();
    }
});
