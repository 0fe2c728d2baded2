// SPDX-License-Identifier: GPL-3.0-or-later
// Ten pages at once: the daemon loses nothing by them, and none of them grows.
import assert from "node:assert/strict";
import { test } from "node:test";
import type { CDPSession } from "playwright-core";
import { Chain, sleep, until } from "./chain.js";

const PAGES = 10;
const MINUTES = Number(process.env.SONAR_PAGES_MINUTES ?? 1);
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

async function heap(session: CDPSession): Promise<number> {
    await session.send("HeapProfiler.collectGarbage");
    const { metrics } = await session.send("Performance.getMetrics");
    return metrics.find((m) => m.name === "JSHeapUsedSize")!.value;
}

const mib = (bytes: number) => (bytes / 2 ** 20).toFixed(1);

test("ten pages lose nothing in the daemon and stay as small as they were", async () => {
    const chain = await Chain.start({ history_s: 10, patient: true });
    try {
        const status = chain.listen("status");
        const pages = [];
        for (let i = 0; i < PAGES; i++) pages.push(await chain.open({ view: ["record", "now", "lofar", "nearfield", "elements"][i % 5] }));
        for (const page of pages) await until("data are drawn", () => page.evaluate("sonard.store.cbf.rows.length > 20"));
        const sessions = await Promise.all(pages.slice(0, 3).map((page) => page.context().newCDPSession(page)));
        for (const session of sessions) await session.send("Performance.enable");
        await sleep(15_000); // until the history of ten seconds is full
        const last = () => lossesOf([...status.values()].pop()!.header as unknown as Losses);
        const before = last();
        const small = await Promise.all(sessions.map(heap));
        await sleep(Math.max(0, MINUTES * 60_000 - 15_000));
        const large = await Promise.all(sessions.map(heap));
        for (let i = 0; i < small.length; i++) // a page that leaks a row a window grows by more in a minute
            assert.ok(large[i] - small[i] < GROWTH_BYTES, `page ${i} grew from ${small[i]} to ${large[i]} bytes`);

        assert.deepEqual(last(), before, "what the daemon lost meanwhile");
        const age = () => ([...status.values()].pop()!.header as unknown as { stream: { age_s: number } }).stream.age_s;
        await until("the daemon has caught up", () => age() < LATE_S);
        console.log(`${PAGES} pages, ${MINUTES} min: heaps of ${small.map(mib).join(", ")} MiB became ${large.map(mib).join(", ")} MiB`);
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
