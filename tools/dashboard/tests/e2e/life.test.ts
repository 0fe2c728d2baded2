// SPDX-License-Identifier: GPL-3.0-or-later
// Silence, death and return.
import assert from "node:assert/strict";
import { test } from "node:test";
import { Chain, drawn, lineOf, picture, rgb, sleep, until } from "./chain.js";

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
        const killed_ms = Date.now();
        await until("a dead daemon turns the page red", dead);
        const before = await rows();
        await sleep(2000);
        chain.startDaemon();
        await until("the page shows the new daemon", async () => !(await dead()) && (await rows()) > before + 8);
        await page.keyboard.press(" ");
        await drawn(page);
        const shot = await picture(page, "cbf");
        assert.deepEqual(rgb(shot, shot.width >> 1, lineOf(shot, killed_ms + 1500)), [225, 30, 40], "the time without a daemon is a gap");
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
