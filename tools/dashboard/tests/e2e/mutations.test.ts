// SPDX-License-Identifier: GPL-3.0-or-later
// Messages to the bridge that are nearly right: of pages, over real WebSockets, and of a daemon. Whatever comes, the
// bridge lives, and a page that keeps to the rules gets every row. SONAR_MUTATIONS: how many of each kind;
// SONAR_MUTATIONS_SEED: another series, which a failure names.
import assert from "node:assert/strict";
import { test } from "node:test";
import { WebSocket } from "ws";
import { decodeFrame, type ToPage } from "../../src/shared/frames.js";
import { decode } from "../../src/shared/protocol.js";
import { Bridge, frame } from "./bridge.js";
import { recorded, until } from "./chain.js";

const COUNT = Number(process.env.SONAR_MUTATIONS ?? 3000);
const SEED = Number(process.env.SONAR_MUTATIONS_SEED ?? 24);
const EACH = 20; // to one connection: more than 200 at once would be hung up on for their number
const TOPICS = ["cbf.azimuth", "cbf.lofar", "cbf.nearfield", "detections", "element.missing", "element.psd", "mvdr.azimuth", "status"];

const REQUESTS = [
    '{"type":"select","source":0}',
    '{"type":"want","topics":["cbf.lofar","cbf.nearfield","element.psd"]}',
    '{"type":"direction","az_deg":73.5,"anew":true}',
    '{"type":"ack","bytes":1000}',
];
const WORDS = [
    ...["null", "true", "-1", "0", "1e308", "-1e999", "1e-400", "9007199254740993", "[]", "{}", '""', "NaN", "[".repeat(900)],
    ...['"__proto__"', '"constructor"', '"\\ud800"', "\u0000", "\ufeff", '"want"', '"select"', '"ack"', '"direction"', '{"type":'],
    ...['"shape":[4294967296]', '"shape":[1e9,1e9]', '"axes":[null]', '"flags":null', '"seq":1e300', '"detections":[null]', '"detections":5'],
].map((word) => Buffer.from(word));

/** Whole numbers below n of a small generator (xorshift), so that a series can be repeated. */
class Chance {
    constructor(private state: number) {}

    below(n: number): number {
        this.state ^= this.state << 13;
        this.state ^= this.state >>> 17;
        this.state ^= this.state << 5;
        return (this.state >>> 0) % n;
    }

    of<T>(all: readonly T[]): T {
        return all[this.below(all.length)];
    }
}

/** One to four changes: a bit, a piece less, twice or elsewhere, a word in it, or a field with another value. */
function mutated(bytes: Buffer, chance: Chance): Buffer {
    for (let n = 1 + chance.below(4); n > 0; n--) {
        const [a, b] = [chance.below(bytes.length + 1), chance.below(bytes.length + 1)].sort((x, y) => x - y);
        const word = chance.of(WORDS);
        switch (chance.below(6)) {
            case 0:
                bytes = Buffer.from(bytes);
                if (a < bytes.length) bytes[a] ^= 1 << chance.below(8);
                break;
            case 1:
                bytes = Buffer.concat([bytes.subarray(0, a), bytes.subarray(b)]);
                break;
            case 2:
                bytes = Buffer.concat([bytes.subarray(0, b), bytes.subarray(a)]);
                break;
            case 3:
                bytes = Buffer.concat([bytes.subarray(0, a), word, bytes.subarray(a)]);
                break;
            case 4:
                bytes = Buffer.concat([bytes.subarray(0, a), word, bytes.subarray(b)]);
                break;
            default: {
                const fields = [...bytes.toString("latin1").matchAll(/":("[^"]*"|\[[^\]]*\]|[-\d.e]+|null|true|false)/g)];
                if (!fields.length) break;
                const { index, 0: field } = chance.of(fields);
                bytes = Buffer.concat([bytes.subarray(0, index + 2), word, bytes.subarray(index + field.length)]);
            }
        }
    }
    return bytes;
}

/** A page that keeps to the rules, and what it was sent. */
class Reader {
    readonly rows: number[] = []; // seq of the daemon's messages of cbf.azimuth with an epoch that only the test sets
    said = 0;
    private axes = new Set<number>();

    private constructor(readonly page: WebSocket) {
        page.on("message", (data: Buffer) => this.check(decodeFrame(data.buffer.slice(data.byteOffset, data.byteOffset + data.length) as ArrayBuffer)));
    }

    static async open(bridge: Bridge): Promise<Reader> {
        const page = await bridge.page("127.0.0.2");
        assert.ok(page, "a page of another address has a place");
        const reader = new Reader(page);
        page.send(JSON.stringify({ type: "want", topics: ["cbf.lofar", "cbf.nearfield", "element.psd", "element.missing"] }));
        return reader;
    }

    /** A row has the numbers that its shape says, and axes that were told before. */
    private check({ header, data }: { header: ToPage; data: Float32Array }): void {
        this.said++;
        if (header.type === "axes") this.axes.add(header.id);
        if (header.type !== "row") return;
        assert.ok(this.axes.has(header.axes), `axes ${header.axes} were not told`);
        assert.equal(data.length, header.header.shape.reduce((product, n) => product * n, 1), header.header.topic);
        if (header.header.topic === "cbf.azimuth" && header.header.epoch === MARK) this.rows.push(header.header.seq);
    }

    isOpen(): boolean {
        return this.page.readyState === WebSocket.OPEN;
    }
}

const MARK = 424_242;

/** Publishes marked rows beside what is tried, each once it can be expected. */
class Marks {
    private seq = 0;
    private first = 0;

    constructor(private readonly bridge: Bridge, private readonly reader: Reader) {}

    async begin(): Promise<void> {
        await until("the bridge is subscribed", async () => (await this.send(), this.reader.rows.length > 0));
        await until("all have come", () => this.reader.rows.at(-1) === this.seq - 1);
        this.reader.rows.length = 0;
        this.first = this.seq;
    }

    private async send(): Promise<void> {
        const [topic, , body] = recorded("cbf.azimuth");
        const { header } = decode(recorded("cbf.azimuth"));
        await this.bridge.daemon.send([topic, JSON.stringify({ ...header, epoch: MARK, seq: this.seq++ }), body]);
    }

    async next(what: string): Promise<void> {
        const want = this.seq;
        await this.send();
        await until(`row ${want} has come after ${what}`, () => this.reader.rows.at(-1) === want || !this.reader.isOpen(), 2);
        assert.ok(this.reader.isOpen(), `the page that keeps to the rules was hung up on after ${what}`);
    }

    check(): void {
        assert.deepEqual(this.reader.rows, Array.from({ length: this.seq - this.first }, (_, i) => this.first + i), "every row came once");
    }
}

async function beside(tried: (bridge: Bridge, chance: Chance, marks: Marks) => Promise<void>): Promise<void> {
    const bridge = await Bridge.start();
    try {
        const reader = await Reader.open(bridge);
        const marks = new Marks(bridge, reader);
        await marks.begin();
        const before = bridge.most_bytes;
        await tried(bridge, new Chance(SEED), marks);
        marks.check();
        assert.equal(await bridge.answers(), 200);
        const grown = bridge.most_bytes - before;
        assert.ok(grown < 250e6, `the bridge grew by ${(grown / 1e6).toFixed(0)} MB`);
        reader.page.terminate();
    } finally {
        await bridge.stop();
    }
}

test(`${COUNT} mutated requests of pages, seed ${SEED}`, () =>
    beside(async (bridge, chance, marks) => {
        let [opened, hungUp] = [0, 0];
        for (let sent = 0; sent < COUNT; sent += EACH) {
            const page = new WebSocket(`ws://127.0.0.1:${bridge.port}/socket`, { localAddress: "127.0.0.3" });
            page.on("error", () => undefined);
            await new Promise((known) => page.once("open", known).once("close", known));
            if (page.readyState !== WebSocket.OPEN) continue; // pages that have just left may still have all places
            opened++;
            for (let i = 0; i < EACH && page.readyState === WebSocket.OPEN; i++) {
                const text = mutated(Buffer.from(chance.of(REQUESTS)), chance);
                page.send(chance.below(20) ? text.toString("utf8") : text, { fin: chance.below(20) > 0 });
                if (chance.below(4) === 0) await new Promise((done) => setImmediate(done));
            }
            await marks.next(`request ${sent + EACH}, seed ${SEED}`);
            hungUp += Number(page.readyState !== WebSocket.OPEN);
            page.terminate();
        }
        assert.ok(opened > COUNT / EACH / 2 && hungUp > 0, `${opened} of ${COUNT / EACH} opened, ${hungUp} hung up on`);
    }));

test(`${COUNT} mutated frames of WebSockets, seed ${SEED}`, () =>
    beside(async (bridge, chance, marks) => {
        for (let sent = 0; sent < COUNT; sent += EACH) {
            const stranger = await bridge.stranger(bridge.handshake(), "127.0.0.3");
            const frames = Array.from({ length: EACH }, () => frame(chance.of(REQUESTS), chance.of([0, 1, 1, 1, 2, 8, 9, 10, 11])));
            stranger.write(mutated(Buffer.concat(frames), chance));
            if (chance.below(2)) stranger.end();
            await marks.next(`frame ${sent + EACH}, seed ${SEED}`);
            chance.below(2) ? stranger.resetAndDestroy() : stranger.destroy();
        }
    }));

test(`${COUNT} mutated messages of a daemon, seed ${SEED}`, () =>
    beside(async (bridge, chance, marks) => {
        for (let sent = 0; sent < COUNT; sent++) {
            const parts: Buffer[] = recorded(chance.of(TOPICS));
            const at = chance.below(8) === 0 ? 0 : chance.below(4) === 0 ? 2 : 1;
            if (at) parts[at] = mutated(parts[at], chance);
            else parts[chance.below(3)] = Buffer.from(chance.of(WORDS));
            if (chance.below(50) === 0) parts.splice(chance.below(3), 1);
            await bridge.daemon.send(parts);
            if (sent % EACH === EACH - 1) await marks.next(`message ${sent + 1}, seed ${SEED}`);
        }
    }));
