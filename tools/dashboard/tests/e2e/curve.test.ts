// SPDX-License-Identifier: GPL-3.0-or-later
// A daemon that speaks CURVE, with certificates that sonar-keys made.
import assert from "node:assert/strict";
import { after, test } from "node:test";
import { Chain, closeBrowser, until } from "./chain.js";

after(closeBrowser);

test("the bridge reads from a daemon that speaks CURVE with its own key, and with no other and none", async () => {
    const chain = await Chain.start({ curve: true });
    try {
        const page = await chain.open();
        await until("data are drawn", () => page.evaluate("sonard.store.cbf.rows.length > 8"));
        await until("it is alive", () => page.evaluate("!document.body.classList.contains('dead')"));
        const reasons: [string[], RegExp][] = [
            [["--key", chain.keyOf("stranger")], /NO STATUS FROM THE DAEMON: it does not allow this key.*\. No data yet/],
            [[], /NO STATUS FROM THE DAEMON: it speaks CURVE and this bridge does not.*\. No data yet/],
        ];
        for (const [keys, reason] of reasons) {
            const refused = await chain.open({}, 1280, 720, await chain.anotherBridge(keys));
            await until("a page without data is red", () => refused.evaluate("document.body.classList.contains('dead')") as Promise<boolean>);
            const windows = () => page.evaluate("sonard.store.cbf.last.header.window") as Promise<number>;
            const before = await windows();
            await until("the other bridge gets windows", async () => (await windows()) > before + 12);
            await until("the page says why", async () => reason.test((await refused.textContent("#alarm"))!));
            assert.equal(await refused.evaluate("sonard.store.cbf.rows.length"), 0);
        }
    } finally {
        await chain.stop();
    }
});
