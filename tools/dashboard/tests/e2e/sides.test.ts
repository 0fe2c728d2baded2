// Port or starboard: the side found by a turn is in the table and on the record.
import assert from "node:assert/strict";
import { after, test } from "node:test";
import { Chain, closeBrowser, SHIP_DEG, until } from "./chain.js";

after(closeBrowser);

// Azimuths of the scene are true then: the ship is 60 degrees to port, and falls astern.
const TURN = "\nown_ship: {heading_deg: 120, turn_deg_s: 2}\n";

test("a contact's side is open until a turn has told it, and then its image is gone", async () => {
    const chain = await Chain.start({ simulator: false, navigation: "simulator", scene: TURN });
    try {
        const page = await chain.open({ view: "contacts", frame: "true", panels: "cbf" });
        chain.startSimulator(); // with the page open: it sees the contact before the turn shows its side
        const row = async () => (await page.locator("#main tbody tr").filter({ hasText: "cbf" }).allTextContents())[0] ?? "";
        const ship = () => page.evaluate("sonard.store.contacts.list.find((c) => c.now.source === 'cbf')?.now") as
            Promise<{ side: string; bearing_deg: number; mirror_deg: number } | undefined>;
        await until("a contact without a side", async () => (await ship())?.side === "unknown");
        await until("both its bearings are in the table", async () => /\d{3}\.\d \| \d{3}\.\d/.test(await row()));
        assert.match(await row(), /\?/);
        await until("the turn tells the side", async () => (await ship())?.side === "port");
        await until("the table tells it", async () => /\d{3}\.\d \(\d{3}\.\d\)[\d.–]+port \d+ %/.test(await row()));
        const bearing = Number(/\d{3}\.\d \(/.exec(await row())![0].slice(0, 5));
        assert.ok(Math.abs(bearing - SHIP_DEG) < 2, `the ship is at ${bearing}`);
        assert.match((await page.textContent("#side tbody tr"))!, /port/);

        await page.keyboard.press("1");
        const named = () => page.evaluate(`[...document.querySelectorAll("[data-panel=cbf] .lines .side")].map((name) =>
            [name.textContent, parseFloat(name.style.left) / name.parentElement.clientWidth])`) as Promise<[string, number][]>;
        await until("the record names it", async () => (await named()).length > 0);
        const names = await named();
        assert.deepEqual(names.map(([name]) => name), ["port"], "once: its image has no name");
        assert.ok(Math.abs(360 * names[0][1] - SHIP_DEG) < 2, `named at ${360 * names[0][1]}`);
    } finally {
        await chain.stop();
    }
});
