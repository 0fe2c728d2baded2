// SPDX-License-Identifier: GPL-3.0-or-later
// The example of docs/browser.md, as its reader would write it, against what the daemon published.
import assert from "node:assert/strict";
import { readFileSync, rmSync, writeFileSync } from "node:fs";
import { after, test } from "node:test";
import { parseRequest } from "../../src/shared/frames.js";
import { TOPICS } from "../../src/bridge/topics.js";
import { Chain, closeBrowser, SHIP_DEG, until } from "./chain.js";

after(closeBrowser);

const PAGE = readFileSync("../../docs/browser.md", "utf8");
const SERVED = "dist/page/";

function block(language: string): string {
    return new RegExp(`^\`\`\`${language}\\b.*\\n([^]*?)^\`\`\``, "m").exec(PAGE)![1];
}

test("the page's example tells the ship's direction and level as the daemon published them", async () => {
    const files = { "reader.html": block("text"), "reader.js": block("js") };
    for (const [name, text] of Object.entries(files)) writeFileSync(SERVED + name, text);
    const chain = await Chain.start();
    try {
        const messages = chain.listen("cbf.azimuth");
        const page = await chain.open({}, 1280, 720, `${chain.address}reader.html`);
        const told = async () => /^(\d+) ([\d.]+) deg ([\d.]+) dB re 1 uPa\^2$/.exec((await page.textContent("#out"))!);
        await until("it tells windows as they come", async () => Number((await told())?.[1]) > 20 && messages.has(Number((await told())![1])));
        const [, window, angle, level] = (await told())!;
        assert.ok(Math.abs(Number(angle) - SHIP_DEG) < 2, angle);
        await until("its window is known", () => messages.has(Number(window)));
        assert.equal(level, (10 * Math.log10(Math.max(...messages.get(Number(window))!.data))).toFixed(2));
    } finally {
        for (const name of Object.keys(files)) rmSync(SERVED + name);
        await chain.stop();
    }
});

test("the page's requests are those that the bridge takes, and its topics those that can be wanted", () => {
    const requests = [...PAGE.matchAll(/^\| `(\{.*\})` \|/gm)].map(([, json]) => parseRequest(json));
    assert.deepEqual(requests.map((said) => said?.type), ["ack", "select", "want", "direction"]);
    const named = [...PAGE.slice(PAGE.indexOf("Topics that can be wanted"), PAGE.indexOf("The daemon computes")).matchAll(/`([a-z.]+)`/g)].map(([, topic]) => topic);
    const known = TOPICS.filter((topic) => !topic.always || topic.keep === "surfaces").map(({ name }) => name);
    assert.deepEqual(named.sort(), known.sort());
});
