// What the MVDR gives in addition to its spectrum: eigenvalues with the number of sources, and the near field.
import assert from "node:assert/strict";
import { after, test } from "node:test";
import type { Header } from "../../src/shared/protocol.js";
import { Chain, closeBrowser, SHIP_DEG, until, wantedBy } from "./chain.js";

after(closeBrowser);

interface Curve {
    angles: number[];
    levels: (number | null | undefined)[];
    scale: string;
    limits: [number, number];
    angles_deg: number[];
    values: number[];
    counted: { counted: boolean } | null;
}

type Plot = { data: (number | null)[][]; series: { label: string; _stroke: string }[] };

test("eigenvalues show one source, and are wanted only while they are shown", async () => {
    const chain = await Chain.start({ mvdr: ", source_count: random_matrix" });
    try {
        const status = chain.listen("status");
        const wanted = () => wantedBy(status);
        const page = await chain.open();
        await until("data are drawn", () => page.evaluate("sonard.store.mvdr.rows.length > 8"));
        assert.ok(!wanted().includes("mvdr.eigenvalues"), String(wanted()));
        await page.keyboard.press("8");
        await until("they are drawn", async () => ((await page.evaluate("sonard.views[7].over?.data[0].length")) as number) > 0);
        await until("the block of 48 snapshots is full", () => page.evaluate("sonard.views[7].shown?.latest.header.snapshots === 48"));
        const [header, count, over, bin] = (await page.evaluate(`[sonard.views[7].shown.latest.header,
            document.querySelector("[data-panel=eigenvalues] .count").textContent,
            ...["over", "bin"].map((name) => ({ data: sonard.views[7][name].data.map((each) => [...each]),
                series: sonard.views[7][name].series.map((each) => ({ label: each.label })) }))]`)) as [Header, string, Plot, Plot];
        // A short snapshot sees no plane wave quite: a second eigenvalue may stand out of the noise.
        const sources = header.sources!;
        assert.ok(sources.rule === "random_matrix" && sources.median! >= 1 && sources.median! <= 2, JSON.stringify(sources));
        assert.match(count, new RegExp(`^sources: median ${sources.median}, most \\d+ \\(random matrix\\)$`));
        assert.deepEqual([over.data.length, over.series.length], [33, 33], "a curve for each of 32 eigenvalues over the frequency");
        assert.equal(over.data[0].length, 45, "600 to 950 Hz in steps of 7.8125");
        over.data[0].forEach((_, k) => {
            const [first, second] = [over.data[1][k]!, over.data[2][k]!];
            // 32 sensors receive the ship 12 dB above the noise: 27 dB, give or take random snapshots.
            assert.ok(first - second > 12, `${first} and ${second} dB at ${over.data[0][k]} Hz`);
        });
        assert.deepEqual(bin.data[0], Array.from({ length: 32 }, (_, i) => i + 1));
        assert.deepEqual(bin.data[2].map((level) => level !== null), Array.from({ length: 32 }, (_, i) => i < sources.median!), "the sources are bright");
        await page.keyboard.press("1");
        await until("they are given up", () => !wanted().includes("mvdr.eigenvalues"));
    } finally {
        await chain.stop();
    }
});

test("MUSIC stands beside the azimuth spectra on its own scale, and is computed only while it is shown", async () => {
    const chain = await Chain.start({ mvdr: ", music: 1" });
    try {
        const status = chain.listen("status");
        const page = await chain.open();
        const wanted = () => wantedBy(status);
        await until("data are drawn", () => page.evaluate("sonard.store.mvdr.rows.length > 8"));
        assert.ok(!wanted().includes("music.azimuth"), String(wanted()));
        await page.keyboard.press("2");
        const curve = () => page.evaluate(`(() => { const { plot, music } = sonard.views[1];
            return music && { angles: [...plot.data[0]], levels: [...plot.data[3]], scale: plot.series[3].scale, limits: [plot.scales.music.min, plot.scales.music.max],
                angles_deg: [...music.axis.values], values: [...music.data], counted: music.header.music }; })()`) as Promise<Curve | null>;
        const peakOf = ({ levels }: Curve) => levels.reduce<number>((best, level, i) => ((level ?? -1) > (levels[best] ?? -1) ? i : best), 0);
        // Until the block of 48 snapshots is full, MUSIC has nothing to tell and is 1 everywhere.
        await until("MUSIC's peak is drawn", async () => {
            const drawn = await curve();
            return drawn !== null && (drawn.levels[peakOf(drawn)] ?? 0) > 3;
        });
        await until("the daemon says who wants it", () => wanted().includes("music.azimuth"));
        const drawn = (await curve())!;
        assert.equal(drawn.scale, "music", "not that of the levels");
        const peak = peakOf(drawn);
        assert.ok(Math.abs(drawn.angles[peak] - SHIP_DEG) < 2, `its peak is at ${drawn.angles[peak]}`);
        assert.ok(drawn.limits[0] === 0 && drawn.limits[1] > drawn.levels[peak]!, String(drawn.limits));
        drawn.angles_deg.forEach((angle, i) => {
            const level = drawn.levels[drawn.angles.indexOf(angle)]!;
            assert.ok(Math.abs(level - 10 * Math.log10(drawn.values[i])) < 1e-6, `${angle} deg: ${level} dB`);
        });
        assert.deepEqual(drawn.counted?.counted, false, "one source, as the configuration says");
        const legend = page.locator("[data-panel=now] header button");
        await until("the legend says what it is", async () => (await legend.textContent()) === "MUSIC (own scale, no level)");
        assert.match((await legend.getAttribute("title"))!, /0 dB where nothing is; 1 source in a bin \(m\)$/);

        await page.keyboard.press("m");
        await until("it is given up", () => !wanted().includes("music.azimuth"));
        await until("the curve is gone", async () => (await curve()) === null && (await legend.textContent()) === "MUSIC");
        await legend.click();
        await until("it is asked for again", () => wanted().includes("music.azimuth"));
        await until("it is drawn again", async () => (await curve()) !== null);
        await page.keyboard.press("1");
        await until("no page wants it beside the record", () => !wanted().includes("music.azimuth"));
    } finally {
        await chain.stop();
    }
});

test("the adaptive near field is shown in the place of the conventional one", async () => {
    const chain = await Chain.start({ mvdr: ", nearfield: true" });
    try {
        const near = chain.listen("mvdr.nearfield");
        const page = await chain.open({ view: "nearfield" });
        const peak = async () => (await page.textContent("[data-panel=nearfield] .readout"))!;
        await until("the conventional one is drawn", async () => /peak/.test(await peak()));
        await page.selectOption("[data-panel=nearfield] select", "mvdr.nearfield");
        const shown = async () => Number(/window (\d+)/.exec((await page.textContent("[data-panel=nearfield] .note"))!)?.[1]);
        const isAdaptive = () => page.evaluate("sonard.views[3].map?.latest.header.topic === 'mvdr.nearfield'") as Promise<boolean>;
        await until("the adaptive one is drawn", async () => (await isAdaptive()) && near.has(await shown()));
        const [window, text] = (await page.evaluate(`[sonard.views[3].map.latest.header.window,
            document.querySelector("[data-panel=nearfield] .readout").textContent]`)) as [number, string];
        const { data, header } = near.get(window)!;
        const best = data.indexOf(Math.max(...data));
        const level = (10 * Math.log10(data[best])).toFixed(2);
        assert.ok(text.includes(`${level} dB`), `${text}: the message's largest is ${level} dB`);
        const angle = header.axes[1].values![best % header.shape[1]];
        assert.ok(Math.abs(angle - SHIP_DEG) < 3, `its peak is at ${angle}`);
        assert.equal(await page.evaluate("sonard.store.latest.has('cbf.nearfield')"), true);
        await page.selectOption("[data-panel=nearfield] select", "cbf.nearfield");
        await until("the conventional one is there again", async () => !(await isAdaptive()) && /peak/.test(await peak()));
    } finally {
        await chain.stop();
    }
});
