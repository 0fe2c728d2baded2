// SPDX-License-Identifier: GPL-3.0-or-later
// A daemon that falls silent, ends and returns.
import assert from "node:assert/strict";
import { after, test } from "node:test";
import { Chain, closeBrowser, picture, rgb, SHIP_DEG, until } from "./chain.js";

after(closeBrowser);

const GAP = "225,30,40";
const EMPTY = "10,14,20";

test("silence turns the page red with the time of the last data, and it recovers by itself", async () => {
    const chain = await Chain.start();
    try {
        const page = await chain.open({ span_s: 300 });
        const dead = () => page.evaluate("document.body.classList.contains('dead')") as Promise<boolean>;
        const rows = () => page.evaluate("sonard.store.cbf.rows.length") as Promise<number>;
        await until("data are drawn", async () => (await rows()) > 8 && !(await dead()));

        chain.daemon!.kill("SIGSTOP");
        await until("a silent daemon turns the page red", dead);
        assert.match((await page.textContent("#alarm"))!, /NO STATUS FROM THE DAEMON FOR .* Last data \d{4}-\d\d-\d\d \d\d:\d\d:\d\dZ/);
        chain.daemon!.kill("SIGCONT");
        await until("the page recovers", async () => !(await dead()));

        chain.daemon!.kill("SIGKILL");
        await until("a dead daemon turns the page red", dead);
        const run = () => page.evaluate("[...new Set(sonard.store.cbf.rows.map((row) => row.header.run))]") as Promise<string[]>;
        const before = await run();
        await until("what was there is drawn on, with red margins where rows are due", async () => {
            const shot = await picture(page, "cbf");
            return rgb(shot, 2, 2).join() === GAP && rgb(shot, shot.width >> 1, 2).join() === EMPTY;
        });
        chain.startDaemon();
        await until("the page shows the new daemon", async () => !(await dead()) && (await run()).join() !== before.join() && (await rows()) > 8);
        assert.equal((await run()).length, 1, "a record of its own");
        await until("the page says why", async () => /new record at [\d:]+Z: the daemon was restarted/.test((await page.textContent("[data-panel=cbf] .note"))!));
    } finally {
        await chain.stop();
    }
});

test("another array on the same endpoint has a record of its own, and none of the rows before", async () => {
    const chain = await Chain.start();
    try {
        const page = await chain.open({ span_s: 60 });
        const store = <T>(what: string) => page.evaluate(`sonard.store.${what}`) as Promise<T>;
        await until("data are drawn", async () => (await store<number>("cbf.rows.length")) > 8);
        await until("a contact is there", async () => (await store<number>("contacts.list.length")) > 0);
        await page.keyboard.press("+");
        await until("a part of the axis is shown", () => page.evaluate("sonard.sight.shown !== null"));
        await chain.changeArray("other-line", 170);
        await until("the other array is there", async () => (await store<string>("cbf.last?.header.array")) === "other-line" &&
            (await store<string>("mvdr.last?.header.array")) === "other-line" && (await store<number>("cbf.rows.length")) > 8);
        for (const record of ["cbf", "mvdr"])
            assert.deepEqual(await store(`${record}.rows.filter((row) => row.header.array !== "other-line").length`), 0, record);
        await until("its contacts alone are told", async () => {
            const bearings = await store<number[]>("contacts.list.map(({ now }) => now.bearing_deg)");
            return bearings.length > 0 && bearings.every((bearing) => Math.abs(bearing - 170 - SHIP_DEG) < 2);
        });
        await until("the page says why", async () => /another array/.test((await page.textContent("[data-panel=cbf] .note"))!));
        assert.equal(await page.evaluate("sonard.sight.shown"), null, "and shows all of its axis");
    } finally {
        await chain.stop();
    }
});

test("the page outlives its bridge and keeps what it knew", async () => {
    const chain = await Chain.start();
    try {
        const page = await chain.open();
        const rows = () => page.evaluate("sonard.store.cbf.rows.length") as Promise<number>;
        await until("data are drawn", async () => (await rows()) > 8);
        const bridge = chain.bridge!;
        bridge.kill("SIGKILL");
        await until("the page says that the bridge is gone", async () => /BRIDGE/.test((await page.textContent("#alarm"))!));
        const before = await rows();
        await chain.startBridge(600);
        await until("the page goes on", async () => (await rows()) > before + 4);
        await until("it is alive", () => page.evaluate("!document.body.classList.contains('dead')"));
    } finally {
        await chain.stop();
    }
});

test("digitisers that fall silent are told while the daemon lives", async () => {
    const chain = await Chain.start();
    try {
        const page = await chain.open();
        await until("data are drawn", () => page.evaluate("sonard.store.cbf.rows.length > 8"));
        chain.simulator!.kill("SIGKILL");
        const alarm = () => page.evaluate("[document.body.classList.contains('dead'), alarm.textContent]") as Promise<[boolean, string]>;
        await until("the data's age is told by a page that is alive", async () => {
            const [dead, text] = await alarm();
            return !dead && /^DATA .* OLD/.test(text);
        });
        await until("the health is no longer ok", async () => (await page.textContent(".badge")) !== "ok");
    } finally {
        await chain.stop();
    }
});
