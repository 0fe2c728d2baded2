// SPDX-License-Identifier: GPL-3.0-or-later
// Tracks on the record: those of the real chain against the simulated truth, and those of a daemon that the test plays
// against what it published.
import assert from "node:assert/strict";
import { after, test } from "node:test";
import type { Page } from "playwright-core";
import type { Track } from "../../src/shared/protocol.js";
import { decode } from "../../src/shared/protocol.js";
import { Bridge } from "./bridge.js";
import { Chain, closeBrowser, drawn, lineOf, openBrowser, picture, recorded, rgb, SHIP_DEG, until, type Picture } from "./chain.js";

after(closeBrowser);

const PLAIN = { palette: "grey", automatic: false, low_db: 40, high_db: 240, marks: false, span_s: 15 }; // nearly black
const INK = [255, 255, 255];
const CHOSEN = [255, 154, 213];

interface Label {
    text: string;
    x: number; // share of the width
    y: number; // pixels below the picture's top
    classes: string;
}

function labels(page: Page, panel = "cbf"): Promise<Label[]> {
    return page.evaluate(`[...document.querySelectorAll("[data-panel=${panel}] .lines .track")].map((name) => ({
        text: name.textContent, x: parseFloat(name.style.left) / name.parentElement.clientWidth, y: parseFloat(name.style.top), classes: name.className,
    }))`);
}

/** The text of the panel of the followed track, by name. */
async function values(page: Page): Promise<Record<string, string>> {
    const rows = (await page.evaluate(`[...document.querySelectorAll("#side table.chosen tr")].map((row) => [...row.children].map((cell) => cell.textContent))`)) as [string, string][];
    return Object.fromEntries(rows.reverse()); // of two bearings the first
}

test("a ship's track has its number at the ship, is followed by mouse and keyboard, and its values are the newest message's", async () => {
    const chain = await Chain.start();
    try {
        const messages = chain.listen("tracks");
        const page = await chain.open(PLAIN);
        await until("a confirmed track is numbered", async () => (await labels(page)).some(({ text }) => /^\d+$/.test(text)));
        for (const panel of ["cbf", "mvdr"]) {
            const [label] = await labels(page, panel);
            assert.ok(Math.abs(180 * label.x - SHIP_DEG) < 2, `${panel}: numbered at ${180 * label.x}`);
        }
        const number = Number((await labels(page))[0].text);
        const track = () => page.evaluate("sonard.store.track") as Promise<number | null>;

        await page.locator("[data-panel=mvdr] .lines .track").first().dispatchEvent("pointerdown");
        await until("a click on the number follows", async () => (await track()) === number);
        await until("the lofargram's direction follows", async () => /follows track/.test((await page.keyboard.press("3"), await page.textContent("#main b"))!));
        await page.keyboard.press("1");
        await page.keyboard.press("Escape");
        assert.equal(await track(), null);
        await until("no values are shown", async () => !(await page.isVisible("#side table.chosen")));
        await page.keyboard.press("g");
        assert.equal(await track(), number);
        await page.keyboard.press("f");
        assert.deepEqual([await track(), await page.evaluate("sonard.store.followed !== null")], [null, true], "one thing is followed");
        await page.focus(`#side tr[data-track="${number}"]`);
        await page.keyboard.press("Enter");
        assert.deepEqual([await track(), await page.evaluate("sonard.store.followed")], [number, null]);

        const first = await values(page);
        await until("the values are those of one of the newest messages", async () => {
            const said = await values(page);
            return [...messages.values()].slice(-9).some(({ header }) => {
                const track = header.tracks!.find((t) => t.number === number);
                if (!track) return false;
                const { existence, rests_on, bearings: [{ bearing_deg, bearing_sigma_deg }] } = track;
                return said.bearing.startsWith(`${bearing_deg.toFixed(1).padStart(5, "0")} ± ${bearing_sigma_deg.toFixed(2)} deg true`) &&
                    said.state === `confirmed, existence ${existence.toFixed(4)}` && said.source.startsWith(rests_on.join("+"));
            });
        });
        await until("the values go on", async () => (await values(page)).age !== first.age);
        await until("the dashed line stands at the ship", async () =>
            Math.abs(180 * ((await page.evaluate(`(() => { const line = document.querySelector("[data-panel=cbf] .lines .followed");
                return line ? parseFloat(line.style.left) / line.parentElement.clientWidth : NaN; })()`)) as number) - SHIP_DEG) < 2);

        await page.keyboard.press("t");
        await drawn(page);
        await until("true bearings: a number on either side", async () => (await labels(page)).length === 2);
        const sides = (await labels(page)).map(({ x }) => 360 * x);
        [30 + SHIP_DEG, 360 + 30 - SHIP_DEG].forEach((bearing, i) => assert.ok(Math.abs(sides[i] - bearing) < 2, `${sides}`));
        await page.keyboard.press("l");
        await until("l hides them", async () => (await labels(page)).length === 0);

        const late = await chain.open({ ...PLAIN, tracks: true });
        await until("a page that is opened late has the whole line", () => late.evaluate(`sonard.store.cbf.rows.filter((row) => row.traces.length).length > 20`));
    } finally {
        await chain.stop();
    }
});

/** A daemon with an array of known directions, whose tracks the test makes. */
class Played {
    window = 0;
    readonly begun_ms = Date.now() - 60_000;
    private cbf = decode(recorded("cbf.azimuth")).header;
    private tracks = decode(recorded("tracks")).header;

    constructor(
        private readonly bridge: Bridge,
        private readonly page: Page,
    ) {}

    utc_ms(window: number): number {
        return this.begun_ms + 250 * window;
    }

    /**
     * A window that the page has before the next one, since a page that is late gets only the newest; null: its message
     * of tracks is lost. Sent again until it is there: the bridge connects again to a daemon that is silent for 10 s.
     */
    async show(tracks: Track[] | null): Promise<void> {
        this.window++;
        const topic = tracks ? "tracks" : "cbf.azimuth";
        const here = `["cbf.azimuth", "${topic}"].every((topic) => sonard.store.latest.get(topic)?.header.window === ${this.window})`;
        await until(`window ${this.window} is there`, async () => (await this.page.evaluate(here)) === true || (await this.send(tracks), false), 50);
    }

    private async send(tracks: Track[] | null): Promise<void> {
        const { window } = this;
        const at = { seq: window, window, sample_index: 1000 * window, fs_hz: 4000, window_length: 1000, epoch: 1, run: "played", utc_ns: 1e6 * this.utc_ms(window) };
        const spectrum = { ...this.cbf, ...at, shape: [360], axes: [{ name: "azimuth", unit: "deg", start: 0, step: 1 }], bearing_kind: "azimuth", ambiguous: false, heading_deg: 0 };
        const { daemon } = this.bridge;
        await daemon.send(["cbf.azimuth", JSON.stringify(spectrum), new Uint8Array(new Float32Array(360).fill(1e5).buffer)]);
        if (tracks) await daemon.send(["tracks", JSON.stringify({ ...this.tracks, ...at, bearing_kind: "azimuth", ambiguous: false, heading_deg: 0, tracks }), new Uint8Array(0)]);
    }

    track(number: number, state: Track["state"], ...bearings: number[]): Track {
        const [one] = this.tracks.tracks!;
        return { ...one, number, state, az_deg: bearings[0], bearings: bearings.map((bearing_deg) => ({ ...one.bearings[0], bearing_deg, side: null })) };
    }
}

/** Columns of a colour in the line of a time. */
function columnsAt(shot: Picture, utc_ms: number, colour: number[]): number[] {
    return columnsOn(shot, lineOf(shot, utc_ms), colour);
}

function columnsOn(shot: Picture, y: number, colour: number[]): number[] {
    const found: number[] = [];
    for (let x = 0; x < shot.width; x++) if (rgb(shot, x, y).every((value, i) => value === colour[i])) found.push(x);
    return found;
}

test("lines stand where the messages say, show their state, jump over north, and leave a lost message's window empty", async () => {
    const bridge = await Bridge.start();
    const context = await (await openBrowser()).newContext({ viewport: { width: 900, height: 480 } });
    try {
        const page = await context.newPage();
        const errors: string[] = [];
        page.on("pageerror", (error) => errors.push(String(error)));
        await page.addInitScript((kept) => localStorage.setItem("sonard-dashboard", kept), JSON.stringify({ ...PLAIN, panels: "cbf" }));
        await page.goto(bridge.address.href);
        const played = new Played(bridge, page);
        await until("the page is open", () => page.evaluate("sonard.link.open"));
        await played.show([]);
        const origin = played.window;
        const LOST = 16; // the window whose message is lost
        for (let i = 0; i < 40; i++)
            await played.show(i === LOST ? null : [
                played.track(1, "confirmed", 100),
                played.track(2, "tentative", 150),
                played.track(3, "coasting", 200),
                played.track(4, "confirmed", (355 + i) % 360),
                ...(i <= 30 ? [played.track(5, i < 30 ? "confirmed" : "lost", 300)] : []),
            ]);
        await page.keyboard.press(" ");
        await drawn(page);
        const look = () => picture(page, "cbf");
        let shot = await look();
        const middle = (i: number) => played.utc_ms(origin + 1 + i) + 125;
        const at = (i: number, deg: number, colour = INK) =>
            columnsAt(shot, middle(i), colour).some((x) => Math.abs(((x + 0.5) / shot.width) * (shot.shown.high - shot.shown.low) + shot.shown.low - deg) < 0.6);
        for (let i = 0; i < 40; i++) {
            assert.equal(at(i, 100), i !== LOST, `window ${i}: ${columnsAt(shot, middle(i), INK)}`);
            if (i !== LOST) assert.ok(at(i, (355 + i) % 360) || i === 5, `window ${i}: the track that crosses north`);
            assert.equal(at(i, 300), i <= 30 && i !== LOST, `window ${i}: the track that is lost`);
        }
        for (let y = 0; y < shot.height; y++) {
            const inked = columnsOn(shot, y, INK).length;
            assert.ok(inked < shot.width / 10, `line ${y} has ${inked} pixels of ink: a line across the picture`);
        }
        // The share of the lines between windows 20 and 39 that have ink.
        const inked = (deg: number) => {
            const [first, last] = [lineOf(shot, middle(39)), lineOf(shot, middle(20))];
            const x = Math.floor(((deg - shot.shown.low) / (shot.shown.high - shot.shown.low)) * shot.width);
            let count = 0;
            for (let y = first; y < last; y++) if (columnsOn(shot, y, INK).some((k) => Math.abs(k - x) <= 1)) count++;
            return count / (last - first);
        };
        assert.equal(inked(100), 1);
        assert.ok(Math.abs(inked(150) - 1 / 3) < 0.05 && Math.abs(inked(200) - 8 / 13) < 0.06, `dots ${inked(150)}, dashes ${inked(200)}`);
        const names = Object.fromEntries((await labels(page)).map((label) => [label.text, label]));
        assert.deepEqual(Object.keys(names).sort(), ["1", "2?", "3…", "4", "5×"]);
        assert.ok(Math.abs(360 * names["4"].x - 34) < 1, `number 4 at ${360 * names["4"].x}`);
        const below = names["5×"].y - lineOf(shot, played.utc_ms(origin + 31));
        assert.ok(Math.abs(below) < 8, `the lost track's number is ${below} pixels beside its end`);

        const box = (await page.locator("[data-panel=cbf] .picture").boundingBox())!;
        await page.mouse.click(box.x + (box.width * 100.5) / 360, box.y + lineOf(shot, middle(4)));
        await until("a click on a line follows", () => page.evaluate("sonard.store.track === 1"));
        await drawn(page);
        shot = await look();
        assert.ok(at(8, 100, CHOSEN) && !at(8, 100) && at(8, 300), "only the followed line has its colour");
        const path = process.env.SONAR_TEST_SHOTS;
        if (path) await page.screenshot({ path: `${path}/tracks.png` });
        await page.mouse.click(box.x + (box.width * 70) / 360, box.y + lineOf(shot, middle(4)));
        await until("beside all lines a click is the lofargram's direction", () => page.evaluate("sonard.store.track === 1"));

        await played.show([played.track(4, "confirmed", 90)]);
        await drawn(page);
        const stopped = (await labels(page)).find(({ text }) => text === "4")!;
        assert.ok(Math.abs(360 * stopped.x - 34) < 1, `in a stopped picture number 4 stays: ${360 * stopped.x}`);
        // Windows go on without the track that is followed: it stays, with the time since.
        await page.keyboard.press(" ");
        for (let i = 0; i < 20; i++) await played.show([played.track(6, "confirmed", 50)]);
        await until("it says how long ago", async () => /^confirmed, 5\.[23] s ago/.test((await values(page)).state ?? ""));
        assert.deepEqual(errors, []);
    } finally {
        await context.close();
        await bridge.stop();
    }
});
