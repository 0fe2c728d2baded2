// SPDX-License-Identifier: GPL-3.0-or-later
// Ten pages at once: the daemon loses nothing, and no page grows.
import assert from "node:assert/strict";
import { after, test } from "node:test";
import type { CDPSession, Page } from "playwright-core";
import { Chain, closeBrowser, sleep, until } from "./chain.js";

after(closeBrowser);

const PAGES = 10;
const MINUTES = Number(process.env.SONAR_PAGES_MINUTES ?? 0);
const HISTORY_S = 10;
const WINDOWS = 60; // that pass at least, once the history is full
const OTHERS = 20; // frames that a page may hold in addition to the rows of its records
const GROWTH_BYTES = 4e6;

/** The chain may come late where ten browsers have the processors, but has to catch up. */
const LATE_S = 3;

/** What may be lost between the daemon's samples and its readers. */
interface Losses {
    output: { results_dropped: number; messages_failed: number; topic_failed: Record<string, number> };
    windows: { dropped: Record<string, number>; failed: number };
}

function lossesOf({ output, windows }: Losses): Losses {
    const { results_dropped, messages_failed, topic_failed } = output;
    return { output: { results_dropped, messages_failed, topic_failed }, windows: { dropped: windows.dropped, failed: windows.failed } };
}

/** From now on the page keeps a weak reference of each frame that it takes. */
function watchFrames(page: Page): Promise<unknown> {
    return page.evaluate(`(() => {
        const { store } = sonard;
        const take = store.take.bind(store);
        window.taken = [];
        store.take = (header, data) => (taken.push(new WeakRef(data.buffer)), take(header, data));
    })()`);
}

/** Frames received since then, those that the page still holds after a collection, and those that it shows. */
async function framesHeld(page: Page, session: CDPSession): Promise<[number, number, number]> {
    const count = await page.evaluate("taken.length"); // frames after the collection are not judged
    await session.send("HeapProfiler.collectGarbage");
    return page.evaluate(`[${count}, taken.slice(0, ${count}).filter((frame) => frame.deref()).length,
        sonard.store.latest.size + ["cbf", "mvdr", "lofar", "music"].reduce((sum, name) => sum + sonard.store[name].rows.length, 0)]`);
}

async function heap(session: CDPSession): Promise<number> {
    await session.send("HeapProfiler.collectGarbage");
    const { metrics } = await session.send("Performance.getMetrics");
    return metrics.find((m) => m.name === "JSHeapUsedSize")!.value;
}

const mib = (bytes: number) => (bytes / 2 ** 20).toFixed(1);

test("ten pages lose nothing in the daemon and stay as small as they were", async () => {
    const chain = await Chain.start({ history_s: HISTORY_S });
    try {
        const status = chain.listen("status");
        const pages: Page[] = [];
        for (let i = 0; i < PAGES; i++) pages.push(await chain.open({ view: ["record", "now", "lofar", "nearfield", "elements"][i % 5] }));
        for (const page of pages) await until("data are drawn", () => page.evaluate("sonard.store.cbf.rows.length > 20"));
        const sessions = await Promise.all(pages.slice(0, 3).map((page) => page.context().newCDPSession(page)));
        for (const session of sessions) await session.send("Performance.enable");
        const windows = () => Promise.all(pages.map((page) => page.evaluate("[sonard.store.cbf.rows[0], sonard.store.cbf.last].map((row) => row.header.window)") as Promise<number[]>));
        const [first] = (await windows()).map(([oldest]) => oldest);
        await until("their histories are full", async () => (await windows()).every(([oldest]) => oldest > first + 4));
        const last = () => lossesOf([...status.values()].pop()!.header as unknown as Losses);
        const before = last();
        const small = await Promise.all(sessions.map(heap));
        await Promise.all(pages.map(watchFrames));
        const [[, began]] = await windows();
        await sleep(MINUTES * 60_000);
        await until("many windows have passed", async () => (await windows()).every(([, newest]) => newest > began + WINDOWS));
        const large = await Promise.all(sessions.map(heap));
        const held = await Promise.all(sessions.map((session, i) => framesHeld(pages[i], session)));
        for (const [taken, kept, shown] of held) {
            assert.ok(taken > shown + 2 * OTHERS, `${taken} frames were taken`);
            assert.ok(kept <= shown + OTHERS, `of ${taken} frames ${kept} are held, for ${shown} that are shown`);
        }
        for (let i = 0; i < small.length; i++) // a page that leaks a row a window grows by more in a minute
            assert.ok(large[i] - small[i] < GROWTH_BYTES, `page ${i} grew from ${small[i]} to ${large[i]} bytes`);

        assert.deepEqual(last(), before, "what the daemon lost meanwhile");
        const age = () => ([...status.values()].pop()!.header as unknown as { stream: { age_s: number } }).stream.age_s;
        await until("the daemon has caught up", () => age() < LATE_S);
        console.log(`${PAGES} pages: heaps of ${small.map(mib).join(", ")} MiB became ${large.map(mib).join(", ")} MiB; frames taken, held, shown: ${held.join("; ")}`);
        for (const page of pages) {
            const [missed, dropped, rows] = (await page.evaluate(
                "[sonard.store.sources[0].missed, sonard.store.dropped, sonard.store.cbf.rows.length]",
            )) as number[];
            assert.deepEqual([missed, dropped], [0, 0], "messages that the bridge or the page missed");
            assert.ok(rows > 20 && rows < 60, `${rows} rows of ten seconds`);
        }
    } finally {
        await chain.stop();
    }
});
