// SPDX-License-Identifier: GPL-3.0-or-later
// The bridge's parts: history, what a page gets and when, who may look.
import assert from "node:assert/strict";
import { EventEmitter } from "node:events";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import type { IncomingMessage } from "node:http";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import type { WebSocket } from "ws";
import { curveKeyPair, Publisher, XPublisher } from "zeromq";
import { Access, isLoopback } from "../../src/bridge/access.js";
import { parseCertificate, type Keys } from "../../src/bridge/certificate.js";
import { AxesTable } from "../../src/bridge/axes.js";
import { Client } from "../../src/bridge/client.js";
import { History, type Entry } from "../../src/bridge/history.js";
import { parseOptions, UsageError } from "../../src/bridge/options.js";
import { networkOf, Places } from "../../src/bridge/places.js";
import { Source } from "../../src/bridge/source.js";
import { Integrator, pack, unpack } from "../../src/bridge/surfaces.js";
import { elementLevel, slice, TOPICS } from "../../src/bridge/topics.js";
import { decodeFrame, type RowHeader, type ToPage } from "../../src/shared/frames.js";
import type { Header } from "../../src/shared/protocol.js";

function entry(window: number, received_ms: number, values = 100, axes = 1): Entry {
    const header = { topic: "cbf.azimuth", window, shape: [values] } as unknown as Header;
    const axis = { name: "azimuth", unit: "deg", start: 0, step: 1 };
    return { header, axes: { id: axes, axes: [axis] }, data: new Float32Array(values).fill(window), received_ms };
}

test("a history is bounded in time and in bytes, and keeps its numbers", () => {
    const history = new History(1000, 1e9);
    for (let i = 0; i < 50; i++) history.push(entry(i, 100 * i));
    assert.equal(history.next, 50);
    assert.equal(history.first, 39);
    assert.equal(history.at(39).header.window, 39);
    const small = new History(1e9, 10_000);
    for (let i = 0; i < 50; i++) small.push(entry(i, 0, 1000));
    assert.equal(small.next - small.first, 1);
    const listed = new History(1e9, 100_000);
    for (let i = 0; i < 50; i++) {
        const { header, ...rest } = entry(i, 0, 0);
        listed.push({ ...rest, header: { ...header, tracks: Array.from({ length: 64 }, () => ({})) } as unknown as RowHeader });
    }
    assert.equal(listed.next - listed.first, 1, "64 tracks take far more than the rest of a header");
    const latest = new History(0, 0);
    for (let i = 0; i < 5; i++) latest.push(entry(i, i));
    assert.deepEqual([latest.first, latest.next], [4, 5]);
    latest.clear();
    assert.deepEqual([latest.first, latest.next], [5, 5]);
});

/** A socket that keeps what is sent, and a source with empty histories. */
function makeClient(values: number, clock = () => performance.now()) {
    const frames: { header: ToPage; data: Float32Array; bytes: number }[] = [];
    const socket = Object.assign(new EventEmitter(), {
        send: (frame: Uint8Array) => {
            frames.push({ ...decodeFrame(frame.slice().buffer), bytes: frame.byteLength });
            if (!socket.reads) socket.bufferedAmount += frame.byteLength;
        },
        close: (_: number, why: string) => socket.closed.push(why),
        reads: true,
        bufferedAmount: 0,
        closed: [] as string[],
    });
    const wanted: string[] = [];
    const histories = new Map(TOPICS.map((t) => [t.name, new History(60_000, 1e9)]));
    const source = { histories, want: (t: string) => wanted.push(t), release: (t: string) => wanted.splice(wanted.indexOf(t), 1) };
    const client = new Client(socket as unknown as WebSocket, [source as unknown as Source], clock);
    const say = (said: object) => socket.emit("message", JSON.stringify(said), false);
    const push = (window: number, received_ms = performance.now()) => {
        histories.get("cbf.azimuth")!.push(entry(window, received_ms, values));
        client.pump();
    };
    const rows = () => frames.flatMap((f) => (f.header.type === "row" ? [f.header.header.window!] : []));
    return { frames, wanted, histories, client, say, push, rows, socket };
}

test("a page gets each row once, in order, and each axis once", () => {
    const { frames, push, rows, histories } = makeClient(100);
    histories.get("cbf.azimuth")!.push(entry(0, performance.now()));
    for (let i = 1; i < 20; i++) push(i);
    assert.deepEqual(rows(), Array.from({ length: 20 }, (_, i) => i));
    assert.equal(frames.filter((f) => f.header.type === "axes").length, 1);
    const row = frames.find((f) => f.header.type === "row" && f.header.header.window === 7)!;
    assert.deepEqual(row.data, new Float32Array(100).fill(7));
});

test("a page that acknowledges nothing has no more than a bounded part on its way, drops whole rows and is told", () => {
    const { frames, push, rows, say, client, histories } = makeClient(50_000);
    for (let i = 0; i < 200; i++) push(i, performance.now() - 60_000 + 10 * i);
    const sent = () => frames.reduce((sum, f) => sum + f.bytes, 0);
    assert.ok(sent() > 4e6 && sent() < 5e6, String(sent()));
    const known = rows().length;
    say({ type: "ack", bytes: sent() });
    assert.equal(rows().length, known + 1, "old rows are left out");
    assert.equal(rows()[known], 199);
    const told = frames.flatMap((f) => (f.header.type === "dropped" ? [f.header.rows] : []));
    assert.deepEqual(told, [199 - known]);
    push(200);
    assert.equal(rows()[known + 1], 200);
    client.pump();
    assert.equal(histories.get("cbf.azimuth")!.next, 201);
});

test("whatever a page says, no more waits for it than a bounded part and a row", () => {
    const { frames, push, say, socket, client } = makeClient(50_000);
    socket.reads = false;
    const sent = () => frames.reduce((sum, f) => sum + f.bytes, 0);
    for (let i = 0; i < 100; i++) {
        push(i);
        say({ type: "ack", bytes: sent() }); // as if everything had been received
        if (i % 10 === 0) say({ type: "select", source: 0 });
    }
    assert.ok(sent() < 1.5e6, `${sent()} bytes wait`);
    const before = frames.length;
    for (let i = 0; i < 150; i++) say({ type: "select", source: 0 });
    client.tell({ type: "sources", sources: [] });
    assert.equal(frames.length, before, "a full page is told nothing, however often it asks");
    assert.deepEqual(socket.closed, []);
});

test("a page that lies about what it got, or asks too often, is hung up on, and releases what it wanted", () => {
    const liar = makeClient(10);
    liar.say({ type: "want", topics: ["cbf.lofar"] });
    liar.push(0);
    liar.say({ type: "ack", bytes: 1e15 });
    assert.deepEqual([liar.socket.closed, liar.wanted], [["more was acknowledged than was sent"], []]);
    const before = liar.frames.length;
    liar.push(1);
    assert.equal(liar.frames.length, before, "nothing more is sent");

    let now_ms = 0;
    const busy = makeClient(10, () => now_ms);
    for (let i = 0; i < 2000; i++, now_ms += 20) busy.say({ type: "direction", az_deg: i, anew: false });
    assert.deepEqual(busy.socket.closed, [], "50 a second are in order");
    for (let i = 0; i < 201; i++) busy.say({ type: "select", source: 0 });
    assert.deepEqual(busy.socket.closed, ["more than 50 requests a second"]);
});

test("a page that acknowledges nothing is idle after 5 s, and is hung up on after 30 s", () => {
    let now_ms = 0;
    const { client, say, socket, frames } = makeClient(10, () => now_ms);
    const second = (acknowledged: boolean) => {
        now_ms += 1000;
        client.tick({ type: "sources", sources: [] });
        if (acknowledged) say({ type: "ack", bytes: frames.reduce((sum, f) => sum + f.bytes, 0) });
    };
    for (let i = 0; i < 100; i++) second(true);
    assert.deepEqual([client.isIdle(), socket.closed], [false, []]);
    for (let i = 0; i < 6; i++) second(false);
    assert.ok(client.isIdle());
    for (let i = 6; i < 30; i++) second(false);
    assert.deepEqual(socket.closed, []);
    second(false);
    assert.deepEqual(socket.closed, ["nothing was acknowledged for 30 s"]);
});

test("places are shared by network, and an idle holder leaves first", () => {
    assert.equal(networkOf("::ffff:192.168.1.2"), networkOf("192.168.1.2"));
    assert.equal(networkOf("2001:db8::1"), networkOf("2001:db8:0:0:ffff::2"));
    assert.notEqual(networkOf("2001:db8:0:1::1"), networkOf("2001:db8::1"));
    assert.equal(networkOf("fe80::1%eth0"), "fe80:0:0:0");
    assert.equal(networkOf("::1"), "0:0:0:0");
    const gone: number[] = [];
    const idle = new Set<number>();
    const places = new Places<number>(4, (n) => idle.has(n), (n) => gone.push(n));
    for (let n = 0; n < 4; n++) assert.ok(places.enter(n, "10.0.0.1"));
    assert.ok(!places.enter(4, "10.0.0.1"), "all its places are in use");
    assert.ok(places.enter(5, "10.0.0.2") && places.enter(6, "10.0.0.3"));
    assert.deepEqual(gone, [0, 1]);
    assert.ok(places.enter(7, "10.0.0.4"));
    assert.deepEqual(gone, [0, 1, 2], "two of one address are more than the newcomer's one");
    assert.ok(!places.enter(8, "10.0.0.5"), "each has one");
    idle.add(5);
    assert.ok(places.enter(9, "10.0.0.1"));
    assert.deepEqual([gone, places.taken], [[0, 1, 2, 5], 4]);
});

test("axes of two daemons never have the same number", () => {
    const [bow, stern] = [new AxesTable(), new AxesTable()];
    const axis = (step: number) => [{ name: "azimuth", unit: "deg", start: 0, step }];
    assert.notEqual(bow.number(axis(1)).id, stern.number(axis(2)).id);
    assert.equal(bow.number(axis(1)).id, bow.number(axis(1)).id);
});

test("what a page wants is wanted while it looks, and no longer", () => {
    const { wanted, say, socket } = makeClient(10);
    say({ type: "want", topics: ["cbf.lofar", "element.level", "no.such", "cbf.lofar"] });
    assert.deepEqual(wanted, ["cbf.lofar", "element.level"]);
    say({ type: "want", topics: ["element.level"] });
    assert.deepEqual(wanted, ["element.level"]);
    socket.emit("close");
    assert.deepEqual(wanted, []);
});

test("another direction of a surface begins with the history", () => {
    const { histories, client, say, frames } = makeClient(10);
    say({ type: "want", topics: ["cbf.lofar"] });
    const axes = [
        { name: "frequency", unit: "Hz", start: 100, step: 1 },
        { name: "azimuth", unit: "deg", values: [0, 50, 90] },
    ];
    for (let i = 0; i < 3; i++) {
        const header = { topic: "cbf.lofar", window: i, shape: [2, 3] } as unknown as Header;
        const packed = pack(Float32Array.of(1, 2, 4, 8, 16, 32));
        histories.get("cbf.lofar")!.push({ header, axes: { id: 9, axes }, data: new Float32Array(0), packed, received_ms: performance.now() });
    }
    client.pump();
    say({ type: "direction", az_deg: 45, anew: true });
    const rows = frames.filter((f) => f.header.type === "row");
    assert.deepEqual(rows.map((f) => [...f.data]), [[4, 32], [4, 32], [4, 32], [2, 16], [2, 16], [2, 16]]);
    assert.equal((rows[5].header as { az_deg: number }).az_deg, 50);
    const surface = histories.get("cbf.lofar")!.at(0);
    assert.equal(slice(surface, 1000).az_deg, 90);
});

test("a packed level is true to 0.004 dB, and no power stays none", () => {
    const power = Float32Array.from({ length: 4000 }, (_, i) => 10 ** (-11 + i / 100));
    pack(power).forEach((level, i) => assert.ok(Math.abs(10 * Math.log10(unpack(level) / power[i])) < 0.004, String(power[i])));
    assert.deepEqual(Array.from(pack(Float32Array.of(0, -1, NaN)), unpack), [0, 0, 0]);
});

test("a lofargram's history puts so many windows together that all of it has room, and no gap is covered", () => {
    const made = (window: number, change: object = {}) =>
        ({ run: "r", epoch: 1, window, sample_index: 500 * window, fs_hz: 1000, window_length: 1000, config_version: "1", shape: [2, 5], flags: [], ...change }) as unknown as RowHeader;
    // Ten seconds are 20 windows of 20 bytes packed.
    const run = (bytes: number, headers: RowHeader[]) => {
        const integrator = new Integrator(10_000, bytes);
        return headers.flatMap((header) => integrator.add(header, new Float32Array(10).fill(header.window!)))
            .map(({ header, data }) => [header.window, header.integrated, data[9]]);
    };
    const windows = (...list: number[]) => list.map((window) => made(window));
    assert.deepEqual(run(400, windows(0, 1, 2)), [[0, 1, 0], [1, 1, 1], [2, 1, 2]], "there is room for each");
    assert.deepEqual(run(399, windows(0, 1, 2, 3, 4)), [[0, 2, 0.5], [2, 2, 2.5]]);
    assert.deepEqual(run(100, windows(0, 1, 2, 3, 7, 8, 10)), [[0, 4, 1.5], [7, 3, Math.fround(25 / 3)]]);
    assert.deepEqual(run(100, windows(0, 1, 9)), [[0, 2, 0.5]], "what comes after a gap is another row");
    assert.deepEqual(run(100, [...windows(0, 1), made(0, { run: "s" }), made(1, { run: "s", flags: ["gap"] })]), [[0, 2, 0.5]]);
});

test("the level of an element is its density summed over its bins", () => {
    const axes = [{ name: "channel", unit: null, start: 0, step: 1 }, { name: "frequency", unit: "Hz", start: 100, step: 2 }];
    const header = { topic: "element.psd", shape: [2, 3], axes, unit: "uPa^2/Hz" } as unknown as Header;
    const level = elementLevel({ header, data: Float32Array.of(1, 2, 3, 10, 20, 30) });
    assert.deepEqual([...level.data], [12, 120]);
    assert.deepEqual([level.header.topic, level.header.unit, level.header.shape], ["element.level", "uPa^2", [2]]);
});

test("a certificate is read as sonar-keys writes it", () => {
    const key = "Yne@$w-vo<fVvi]a<NY6T1ed:M$fCG*[IaLV{hID";
    const text = `#   ZeroMQ CURVE secret certificate, made by sonar-keys\n\nmetadata\ncurve\n    public-key = "${key}"\n    secret-key = "${key}"\n    server-key = "${key}"\n`;
    assert.deepEqual(parseCertificate(text, "f"), { "public-key": key, "secret-key": key, "server-key": key });
    assert.deepEqual(parseCertificate(text.replace("curve", "other"), "f"), {});
    assert.throws(() => parseCertificate(text.replace(key, "short"), "f"), /f: public-key is not 40 characters of Z85/);
    const folder = mkdtempSync(join(tmpdir(), "sonard-keys-"));
    writeFileSync(join(folder, "a"), text);
    writeFileSync(join(folder, "b"), text.replace(/ {4}server.*\n/, ""));
    const options = parseOptions(["ipc:///x", "tcp://a:1", "-k", join(folder, "a"), "tcp://b:1", "ipc:///y"]);
    assert.ok(typeof options === "object");
    assert.deepEqual(options.sources.map((source) => source.keys?.server ?? null), [null, null, key, null]);
    assert.throws(() => parseOptions(["--key", join(folder, "b")]), /there is no server-key; 'sonar-keys client/);
    rmSync(folder, { recursive: true });
});

test("a source speaks CURVE to a daemon that wants it", async () => {
    const [server, own] = [curveKeyPair(), curveKeyPair()];
    const daemon = new Publisher({ curveServer: true, curvePublicKey: server.publicKey, curveSecretKey: server.secretKey, linger: 0 });
    await daemon.bind("tcp://127.0.0.1:*");
    const keys = { server: server.publicKey, public: own.publicKey, secret: own.secretKey };
    const parts = recorded("status");
    const open = (given: typeof keys | null) =>
        new Source({ name: "", endpoint: daemon.lastEndpoint!, history_ms: 1000, keys: given }, () => undefined);
    const [encrypted, clear] = [open(keys), open(null)];
    try {
        for (let i = 0; i < 100 && encrypted.describe().array === null; i++) {
            await daemon.send(parts);
            await new Promise((done) => setTimeout(done, 50));
        }
        assert.equal(encrypted.describe().array, "test-line");
        assert.equal(clear.describe().array, null, "nothing comes in the clear");
    } finally {
        encrypted.close();
        clear.close();
        daemon.close();
    }
});

test("ratios are subscribed to while a page wants them, and no longer; their rows end with that", async () => {
    const daemon = new XPublisher({ linger: 0 });
    await daemon.bind("tcp://127.0.0.1:*");
    const subscribed = new Set<string>();
    const hear = async () => {
        for await (const [frame] of daemon) subscribed[frame[0] ? "add" : "delete"](String(frame.subarray(1)));
    };
    const hearing = hear().catch(() => undefined); // ends when the socket is closed
    const source = new Source({ name: "", endpoint: daemon.lastEndpoint!, history_ms: 60_000, keys: null }, () => undefined);
    const until = async (holds: () => boolean) => {
        for (let i = 0; i < 600 && !holds(); i++) await new Promise((done) => setTimeout(done, 50));
        assert.ok(holds(), [...subscribed].join());
    };
    const ratios = ["cbf.normalised", "cbf.sped", "mvdr.normalised"];
    const wanted = () => ratios.filter((topic) => subscribed.has(topic)).join();
    const history = source.histories.get("cbf.sped")!;
    const [, head, body] = recorded("cbf.azimuth");
    try {
        await until(() => subscribed.has("cbf.azimuth"));
        assert.equal(wanted(), "");
        for (let page = 0; page < 2; page++) source.want("cbf.sped");
        await until(() => wanted() === "cbf.sped");
        for (let i = 0; i < 3; i++) await daemon.send(["cbf.sped", String(head).replace('"cbf.azimuth"', '"cbf.sped"'), body]);
        await until(() => history.next - history.first === 3);
        source.release("cbf.sped");
        source.want("mvdr.normalised");
        await until(() => wanted() === "cbf.sped,mvdr.normalised");
        assert.equal(history.next - history.first, 3, "the other page wants them");
        source.release("cbf.sped");
        await until(() => wanted() === "mvdr.normalised");
        assert.equal(history.next - history.first, 0);
    } finally {
        source.close();
        daemon.close();
        await hearing;
    }
});

/** The three parts of a message that a daemon sent (tests/data: each after its length as u32). */
function recorded(name: string): Buffer[] {
    const file = readFileSync(`tests/data/${name}.msg`);
    const parts: Buffer[] = [];
    for (let at = 0; at < file.length; at += 4 + file.readUInt32LE(at)) parts.push(file.subarray(at + 4, at + 4 + file.readUInt32LE(at)));
    return parts;
}

/** Repeats `meanwhile` until the source gives the reason why it receives nothing. */
async function reason(endpoint: string, keys: Keys | null, wanted: RegExp, meanwhile: () => unknown = () => undefined): Promise<void> {
    const source = new Source({ name: "", endpoint, history_ms: 1000, keys }, () => undefined);
    try {
        for (let i = 0; i < 600 && !wanted.test(source.describe().waits); i++) {
            await meanwhile();
            await new Promise((done) => setTimeout(done, 50));
        }
        assert.match(source.describe().waits, wanted);
    } finally {
        source.close();
    }
}

test("a bridge that gets nothing knows why", async () => {
    const folder = mkdtempSync(join(tmpdir(), "sonard-waits-"));
    const [server, own, other] = [curveKeyPair(), curveKeyPair(), curveKeyPair()];
    const [encrypted, plain] = [new Publisher({ curveServer: true, curveSecretKey: server.secretKey }), new Publisher()];
    const hangsUp = createServer((socket) => socket.on("error", () => undefined).destroy());
    try {
        await reason(`ipc://${folder}/nothing`, null, /nothing listens there/);
        await encrypted.bind("tcp://127.0.0.1:*");
        await plain.bind("tcp://127.0.0.1:*");
        await new Promise<void>((done) => hangsUp.listen(join(folder, "gate"), done));
        await reason(`ipc://${folder}/gate`, null, /too many connections, or makes them too often/);
        await reason(encrypted.lastEndpoint!, null, /speaks CURVE and this bridge does not/);
        const keys = { server: other.publicKey, public: own.publicKey, secret: own.secretKey };
        await reason(encrypted.lastEndpoint!, keys, /the server-key of --key is not its own/);
        await reason(plain.lastEndpoint!, keys, /or vice versa/);
        const [topic, head, body] = recorded("status");
        const foreign = [topic, Buffer.from(String(head).replace("sonard/1", "sonard/2")), body];
        await reason(plain.lastEndpoint!, null, /refuses: schema 'sonard\/2', this reader knows 'sonard\/1'/, () => plain.send(foreign));
        await reason(plain.lastEndpoint!, null, /^$/, () => plain.send([topic, head, body]));
    } finally {
        for (const each of [encrypted, plain]) each.close();
        hangsUp.close();
        rmSync(folder, { recursive: true });
    }
});

test("a reason that is over is told no more", async () => {
    const folder = mkdtempSync(join(tmpdir(), "sonard-waits-"));
    const daemon = new Publisher();
    const source = new Source({ name: "", endpoint: `ipc://${folder}/out`, history_ms: 1000, keys: null }, () => undefined);
    const until = async (holds: () => boolean) => {
        for (let i = 0; i < 600 && !holds(); i++) await new Promise((done) => setTimeout(done, 50));
        assert.ok(holds(), source.describe().waits);
    };
    try {
        await until(() => source.describe().waits !== "");
        await daemon.bind(`ipc://${folder}/out`);
        await until(() => source.describe().waits === "");
    } finally {
        source.close();
        daemon.close();
        rmSync(folder, { recursive: true });
    }
});

test("a request from elsewhere is refused", () => {
    const ask = (headers: Record<string, string>, url = "/") => ({ headers, url }) as unknown as IncomingMessage;
    const open = new Access(null);
    assert.equal(open.refusal(ask({ host: "127.0.0.1:8088" })), null);
    assert.equal(open.refusal(ask({ host: "localhost:8088", origin: "http://localhost:8088" })), null);
    assert.ok(open.refusal(ask({ host: "127.0.0.1:8088", origin: "http://evil.example" })));
    assert.ok(open.refusal(ask({ host: "evil.example:8088" })), "a name that was made to mean this address");
    assert.ok(open.refusal(ask({})));
    for (const url of ["http://[", "*", "", "x"]) assert.ok(open.refusal(ask({ host: "127.0.0.1:8088" }, url)), `'${url}'`);
    const closed = new Access("0123456789abcdef");
    assert.equal(closed.cookie(ask({}, "http://[")), null);
    assert.ok(closed.refusal(ask({ host: "sonar:8088" })));
    assert.ok(closed.refusal(ask({ host: "sonar:8088" }, "/?token=0123456789abcdeX")));
    assert.equal(closed.refusal(ask({ host: "sonar:8088" }, "/?token=0123456789abcdef")), null);
    assert.equal(closed.refusal(ask({ host: "sonar:8088", cookie: "a=b; sonard_dashboard=0123456789abcdef" })), null);
    assert.match(closed.cookie(ask({}, "/?token=0123456789abcdef"))!, /HttpOnly; SameSite=Strict/);
    assert.equal(closed.cookie(ask({})), null);
    assert.ok(isLoopback("::1") && isLoopback("127.0.0.1") && !isLoopback("0.0.0.0") && !isLoopback("127.evil.example"));
});

test("the command line", () => {
    const plain = parseOptions([]);
    assert.ok(typeof plain === "object");
    assert.deepEqual([plain.host, plain.port, plain.token, plain.history_ms], ["127.0.0.1", 8088, null, 600_000]);
    assert.deepEqual(plain.sources, [{ name: "", endpoint: "tcp://127.0.0.1:5556", keys: null }]);
    const wide = parseOptions(["--listen", "[::]:0", "bow=tcp://a:1", "ipc:///run/x=y"]);
    assert.ok(typeof wide === "object" && wide.token!.length >= 16);
    assert.deepEqual(wide.sources, [{ name: "bow", endpoint: "tcp://a:1", keys: null }, { name: "", endpoint: "ipc:///run/x=y", keys: null }]);
    for (const wrong of [["--listen"], ["--listen", "80"], ["--listen", "a:70000"], ["--history", "5"], ["--no"], ["udp://x"], ["-k"]])
        assert.throws(() => parseOptions(wrong), UsageError, wrong.join(" "));
    assert.throws(() => parseOptions(["--lisen", "x"]), /'--lisen' is not an option; the options are --listen, /);
    assert.equal(parseOptions(["-h"]), "help");
    assert.equal(parseOptions(["--version"]), "version");
});
