// SPDX-License-Identifier: GPL-3.0-or-later
// Every view against the simulated truth, and the topics that the daemon has to compute for it.
import assert from "node:assert/strict";
import { after, test } from "node:test";
import { Chain, closeBrowser, drawn, picture, rgb, SHIP_DEG, until, wantedBy } from "./chain.js";

after(closeBrowser);

const TONE_HZ = 300; // of the ship

test("views show the ship, the lofargram as far back as the record, and surfaces are subscribed to only while they are shown", async () => {
    const chain = await Chain.start();
    try {
        const status = chain.listen("status");
        const wanted = () => wantedBy(status);
        const page = await chain.open({ palette: "grey", span_s: 15 });
        await until("data are drawn", () => page.evaluate("sonard.store.cbf.rows.length > 8"));
        assert.ok(!wanted().includes("cbf.nearfield"), String(wanted()));

        await until("a contact is in the table", async () => /\d+\.\d/.test((await page.textContent("#side tbody tr td"))!));
        const bearing = Number(/\d+\.\d/.exec((await page.textContent("#side tbody tr td"))!)![0]);
        assert.ok(Math.abs(bearing - (30 + SHIP_DEG)) < 1, `the table's bearing is ${bearing}`);
        await page.click("#side tbody tr");
        await until("a contact is followed", () => page.evaluate("sonard.store.followed !== null"));

        await page.keyboard.press("3");
        await until("the lofargram goes back to where the record begins", () =>
            page.evaluate("sonard.store.lofar.rows[0]?.header.window <= sonard.store.cbf.rows[0].header.window"));
        await until("the lofargram goes on", () => page.evaluate("sonard.store.cbf.last.header.window - sonard.store.lofar.last.header.window < 3"));
        const angle = (await page.evaluate("sonard.store.lofar.last.az_deg")) as number;
        assert.ok(Math.abs(angle - SHIP_DEG) < 2, `its direction is ${angle}`);
        await page.keyboard.press(" ");
        await drawn(page);
        const shot = await picture(page, "lofar");
        const line = Array.from({ length: shot.width }, (_, x) => rgb(shot, x, 10)[0]);
        const peak = line.indexOf(Math.max(...line));
        const peak_hz = shot.shown.low + ((peak + 0.5) / shot.width) * (shot.shown.high - shot.shown.low);
        assert.ok(Math.abs(peak_hz - TONE_HZ) < 6, `the tone stands at ${peak_hz} Hz`);
        await page.keyboard.press(" ");

        await page.keyboard.press("4");
        await until("the near field is drawn", async () => /peak.*deg/.test((await page.textContent("[data-panel=nearfield] .readout"))!));
        const found = Number(/([\d.]+) deg/.exec((await page.textContent("[data-panel=nearfield] .readout"))!)![1]);
        assert.ok(Math.abs(found - SHIP_DEG) < 3, `the map's peak is at ${found}`);
        await until("the near field is subscribed to", () => wanted().includes("cbf.nearfield"));

        await page.keyboard.press("5");
        await until("levels of 32 elements come", () => page.evaluate("sonard.store.latest.get('element.level')?.data.length === 32"));
        const power = (await page.evaluate("Array.from(sonard.store.latest.get('element.level').data)")) as number[];
        // The ship's 62 dB/Hz over 850 Hz and its tone of 90 dB, both at the array: 94 dB.
        for (const p of power) assert.ok(Math.abs(10 * Math.log10(p) - 94) < 2.5, `${10 * Math.log10(p)} dB`);

        await page.keyboard.press("2");
        await until("curves are drawn", async () => (await page.locator("[data-panel=now] canvas").count()) > 0);
        await page.keyboard.press("7");
        await until("the health is told", async () => /windows processed\d/.test((await page.textContent("#main"))!));
        assert.match((await page.textContent("#main"))!, /configuration1-[0-9a-f]{8}/);
        await page.keyboard.press("6");
        await until("the table is shown in full", async () => /first seen UTC/.test((await page.textContent("#main"))!));
        await until("nothing but the always wanted is wanted", () => !wanted().some((t) => /element|nearfield/.test(t)));
    } finally {
        await chain.stop();
    }
});

test("true bearings show a line's ship on both sides, and keys choose what is drawn", async () => {
    const chain = await Chain.start();
    try {
        const page = await chain.open({ palette: "grey", automatic: false, low_db: 40, high_db: 120, marks: false, tracks: false, span_s: 15 });
        await until("data are drawn", () => page.evaluate("sonard.store.cbf.rows.length > 8"));
        await page.keyboard.press("t");
        await page.keyboard.press("b");
        await drawn(page);
        assert.equal(await page.locator(".panel").count(), 1, "CBF alone");
        const shot = await picture(page, "cbf");
        const line = Array.from({ length: shot.width }, (_, x) => rgb(shot, x, 12)[0]);
        for (const bearing of [30 + SHIP_DEG, 360 + 30 - SHIP_DEG]) {
            const place = Math.floor((bearing / 360) * shot.width);
            const around = line.slice(place - 2, place + 3);
            assert.ok(Math.max(...around) >= Math.max(...line) - 1, `${bearing}: ${around} of ${Math.max(...line)}`);
        }
        await page.keyboard.press("n");
        assert.equal(await page.evaluate("sonard.settings.normalisation"), "s2pm");
        await page.keyboard.press("?");
        assert.ok(await page.isVisible("#help"));
        await page.keyboard.press("Escape");
        assert.ok(!(await page.isVisible("#help")));
    } finally {
        await chain.stop();
    }
});

test("a phone shows one column of panels that can be read, and the contacts below", async () => {
    const chain = await Chain.start({ scene: "\nfaults: [{kind: drop, frame: 20, count: 2}]\n" }); // a loss has a long text
    try {
        const page = await chain.open({}, 390, 844);
        await until("a contact is in the table", async () => (await page.locator("#side tbody tr[data-id]").count()) > 0);
        const boxes = (selector: string) => page.evaluate(`[...document.querySelectorAll("${selector}")].map((each) => {
            const { left, top, right, bottom } = each.getBoundingClientRect();
            return { left, top, right, bottom };
        })`) as Promise<{ left: number; top: number; right: number; bottom: number }[]>;
        for (const key of ["1", "2", "3", "4", "5", "6", "7", "8"]) {
            await page.keyboard.press(key);
            await drawn(page);
            const parts = [...(await boxes("#main .panel, #main .facts section")), ...(await boxes("#side"))];
            parts.forEach(({ left, top, right }, i) => {
                assert.ok(left >= 0 && right <= 390 && right - left > 350, `view ${key}: part ${i} from ${left} to ${right}`);
                assert.ok(i === 0 || top >= parts[i - 1].bottom, `view ${key}: part ${i} stands beside the one before`);
            });
            for (const { top, bottom } of await boxes("#main .panel .field")) assert.ok(bottom - top > 200, `view ${key}: ${bottom - top} pixels high`);
            assert.equal(await page.evaluate("document.documentElement.scrollWidth"), 390, `view ${key}: nothing lies beside the screen`);
        }
    } finally {
        await chain.stop();
    }
});

test("a view for which nothing comes says what is missing and what to do", async () => {
    const chain = await Chain.start({ simulator: false });
    try {
        const page = await chain.open();
        const told = (view: string) => page.evaluate(`document.querySelector("#main > .${view} .empty:not([hidden])")?.textContent ?? ""`) as Promise<string>;
        const views = ["1", "2", "3", "4", "5", "8"];
        for (const key of views) {
            await page.keyboard.press(key);
            await until(`view ${key} says that there are no samples`, async () => /received no samples.*ingest\.endpoints/.test(await told("view")));
        }
        await page.keyboard.press("6");
        await until("the table says it, too", async () => /received no samples/.test((await page.textContent("#main tbody"))!));

        chain.startSimulator();
        await page.keyboard.press("1");
        await until("data are drawn", () => page.evaluate("sonard.store.cbf.rows.length > 8"));
        for (const key of views.filter((view) => view !== "4")) {
            await page.keyboard.press(key);
            await until(`view ${key} has nothing to say`, async () => (await told("view")) === "");
        }
        await page.keyboard.press("4");
        await page.selectOption("[data-panel=nearfield] select", "mvdr.nearfield");
        await until("the option is named", async () => /Waiting for mvdr\.nearfield\..* mvdr\.nearfield is true/.test(await told("view")));

        const { bridge, daemon } = chain;
        for (const each of [bridge!, daemon!]) {
            const gone = new Promise((done) => each.once("exit", done));
            each.kill("SIGKILL");
            await gone;
        }
        await chain.startBridge(600);
        await page.reload();
        await until("no daemon is there", async () => /Nothing is received from ipc:.*: it does not answer: nothing listens there\..* sonard running/.test(await told("view")));
    } finally {
        await chain.stop();
    }
});

test("a contact is followed by the keyboard, and keeps the focus while its figures change", async () => {
    const chain = await Chain.start();
    try {
        const page = await chain.open();
        await until("a contact is in the table", async () => (await page.locator("#side tbody tr[data-id]").count()) > 0);
        const id = await page.locator("#side tbody tr[data-id]").first().getAttribute("data-id");
        const row = page.locator(`#side tbody tr[data-id="${id}"]`);
        await row.focus();
        const before = await page.evaluate("sonard.store.cbf.last.header.window");
        const text = await row.textContent();
        await until("its figures have changed", async () => (await page.evaluate("sonard.store.cbf.last.header.window")) !== before && (await row.textContent()) !== text);
        assert.equal(await page.evaluate("document.activeElement.dataset.id"), id);
        for (const [key, followed] of [["Enter", Number(id)], [" ", null]]) {
            await page.keyboard.press(key as string);
            await until(`'${key}' follows ${followed}`, async () => (await page.evaluate("sonard.store.followed")) === followed);
        }
        assert.equal(await page.evaluate("sonard.sight.frozen"), null, "the space was the row's, not the record's");
    } finally {
        await chain.stop();
    }
});
