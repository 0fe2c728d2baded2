// SPDX-License-Identifier: GPL-3.0-or-later
// The array's drawing: where hydrophones are, which of them are masked, and why.
import assert from "node:assert/strict";
import { after, test } from "node:test";
import { Chain, closeBrowser, until } from "./chain.js";

after(closeBrowser);

const ARRAY = ", mask: [3], auto_mask: true";
const SCENE = "\nelements: {list: [{sensor: 7, dead: true}]}\n";

test("hydrophones stand where the configuration has them, masked by hand, taken out, or in order", async () => {
    const chain = await Chain.start({ array: ARRAY, scene: SCENE });
    try {
        const page = await chain.open({ view: "elements" });
        await until("the dead hydrophone is taken out", () =>
            page.evaluate("sonard.store.status?.header.elements?.masked_auto.count === 1"));
        const places = () => page.evaluate("Array.from({ length: 32 }, (_, c) => sonard.views[4].array.placeOf(c))") as Promise<[number, number][]>;
        await until("the array is drawn", async () => (await places()).every((place) => place !== null));
        const drawn = await places();
        const step = drawn[1][0] - drawn[0][0];
        assert.ok(step > 5, `0.75 m are ${step} pixels`);
        drawn.forEach(([x, y], c) => {
            assert.ok(Math.abs(x - drawn[0][0] - c * step) < 0.01, `channel ${c} of a line stands at ${x}`);
            assert.equal(y, drawn[0][1], "on its axis");
        });
        const box = (await page.locator("[data-panel=array] canvas:not(.bar)").boundingBox())!;
        const tells = async (channel: number, what: RegExp) => {
            await page.mouse.move(box.x + drawn[channel][0], box.y + drawn[channel][1]);
            const text = async () => (await page.textContent("[data-panel=elements] .readout"))!;
            await until(`the pointer reads channel ${channel}: ${what}`, async () => (await text()).startsWith(`channel ${channel} `) && what.test(await text()));
        };
        await tells(0, /forward -11\.6\d m, right 0\.00 m, down 0\.00 m {2}· {2}no fault found$/);
        await tells(3, /no fault found {2}· {2}masked by hand$/);
        await tells(7, /dead {2}· {2}masked automatically$/);
        await tells(31, /forward 11\.6\d m/);
    } finally {
        await chain.stop();
    }
});
