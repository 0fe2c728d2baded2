// SPDX-License-Identifier: GPL-3.0-or-later
// The built bridge with peers that violate every rule: it continues, stays small, and has places for others.
import assert from "node:assert/strict";
import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { get, type IncomingMessage } from "node:http";
import { connect, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { WebSocket } from "ws";
import { Publisher } from "zeromq";
import { decodeFrame } from "../../src/shared/frames.js";
import { decode } from "../../src/shared/protocol.js";
import { announced, recorded, until } from "./chain.js";

const TOKEN = "0123456789abcdef";
const PLACES = 64;

/** A bridge that reads what the test publishes. */
class Bridge {
    readonly folder = mkdtempSync(join(tmpdir(), "sonard-strangers-"));
    readonly daemon = new Publisher({ linger: 0 });
    process!: ChildProcess;
    address!: URL;

    static async start({ token = false, descriptors = 0 } = {}): Promise<Bridge> {
        const bridge = new Bridge();
        await bridge.daemon.bind(`ipc://${bridge.folder}/out`);
        writeFileSync(join(bridge.folder, "token"), TOKEN);
        const options = ["dist/bridge.js", "--listen", "127.0.0.1:0", ...(token ? ["--token-file", join(bridge.folder, "token")] : [])];
        const command = [process.execPath, ...options, bridge.daemon.lastEndpoint!];
        const [program, ...args] = descriptors ? ["prlimit", `--nofile=${descriptors}`, ...command] : command;
        bridge.process = spawn(program, args, { stdio: ["ignore", "pipe", "inherit"] });
        bridge.address = new URL(await announced(bridge.process));
        return bridge;
    }

    get port(): number {
        return Number(this.address.port);
    }

    /** Status of an answer to an ordinary request. */
    async answers(localAddress = "127.0.0.1"): Promise<number | undefined> {
        assert.equal(this.process.exitCode ?? this.process.signalCode, null, "the bridge runs");
        const request = get({ host: "127.0.0.1", port: this.port, path: this.address.pathname + this.address.search, localAddress, agent: false });
        const response = await new Promise<IncomingMessage | null>((heard) => request.once("response", heard).once("error", () => heard(null)));
        response?.destroy();
        return response?.statusCode;
    }

    /** A connection that has sent a text, and reads nothing. */
    async stranger(text: string, localAddress = "127.0.0.1"): Promise<Socket> {
        const socket = connect({ host: "127.0.0.1", port: this.port, localAddress });
        socket.on("error", () => undefined); // the bridge may disconnect at any time
        await Promise.race([once(socket, "connect"), once(socket, "close")]);
        socket.write(text);
        return socket;
    }

    handshake(): string {
        return `GET /socket HTTP/1.1\r\nHost: 127.0.0.1:${this.port}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: MDEyMzQ1Njc4OWFiY2RlZg==\r\n\r\n`;
    }

    /** A page that reads and acknowledges, once it is open. Null: it was refused. */
    async page(localAddress = "127.0.0.1"): Promise<WebSocket | null> {
        const page = new WebSocket(`ws://127.0.0.1:${this.port}/socket`, { localAddress });
        page.on("error", () => undefined);
        let bytes = 0;
        page.on("message", (frame: Buffer) => page.send(JSON.stringify({ type: "ack", bytes: (bytes += frame.length) })));
        await new Promise((known) => page.once("open", known).once("close", known));
        return page.readyState === WebSocket.OPEN ? page : null;
    }

    /** Bytes received by the bridge's machine that the bridge has not read. */
    get unread(): number {
        const port = this.port.toString(16).toUpperCase().padStart(4, "0");
        const lines = readFileSync("/proc/net/tcp", "utf8").split("\n").map((line) => line.trim().split(/\s+/));
        return lines.reduce((sum, words) => sum + (words[1]?.endsWith(`:${port}`) && words[3] === "01" ? parseInt(words[4].split(":")[1], 16) : 0), 0);
    }

    get most_bytes(): number {
        return 1024 * Number(/VmHWM:\s+(\d+)/.exec(readFileSync(`/proc/${this.process.pid}/status`, "utf8"))![1]);
    }

    /** Publishes rows of a spectrum of this many directions until the bridge shows them. */
    async publish(rows: number, directions: number): Promise<void> {
        const { header } = decode(recorded("cbf.azimuth"));
        const axis = { name: "azimuth", unit: "deg", start: 0, step: 180 / directions };
        const body = new Uint8Array(4 * directions);
        const reader = (await this.page())!;
        let last = -1;
        reader.on("message", (frame: Buffer) => {
            const { header: said } = decodeFrame(frame.buffer.slice(frame.byteOffset, frame.byteOffset + frame.length) as ArrayBuffer);
            if (said.type === "row" && said.header.topic === "cbf.azimuth") last = said.header.seq;
        });
        const send = (seq: number) =>
            this.daemon.send(["cbf.azimuth", JSON.stringify({ ...header, seq, shape: [directions], axes: [axis] }), body]);
        await until("the bridge is subscribed", async () => (await send(0), last === 0));
        for (let seq = 1; seq < rows; seq++) {
            await send(seq);
            await until(`row ${seq} has come`, () => last === seq, 5);
        }
        reader.terminate();
    }

    async stop(): Promise<void> {
        this.daemon.close();
        this.process.kill("SIGKILL");
        rmSync(this.folder, { recursive: true });
    }
}

/** A text as a client sends it, with a mask of zeros. */
function frame(text: string, opcode = 1): Buffer {
    const head = [0x80 | opcode, 0x80 | (text.length < 126 ? text.length : 126)];
    if (text.length >= 126) head.push(text.length >> 8, text.length & 255);
    return Buffer.concat([Buffer.from([...head, 0, 0, 0, 0]), Buffer.from(text)]);
}

test("no address that a stranger asks for ends the bridge, with a token or without", async () => {
    for (const token of [true, false]) {
        const bridge = await Bridge.start({ token });
        try {
            for (const url of ["http://[", "http://a:99999/", "//[", "/\\[", "http://%", "*", "/%", "/%00", "/../../etc/passwd"])
                for (const upgrade of ["", "Connection: Upgrade\r\nUpgrade: websocket\r\n"]) {
                    const stranger = await bridge.stranger(`GET ${url} HTTP/1.1\r\nHost: 127.0.0.1:${bridge.port}\r\n${upgrade}\r\n`);
                    const answer = await new Promise((heard) => stranger.once("data", heard).once("close", () => heard("nothing")));
                    assert.match(String(answer), /^HTTP\/1\.1 4/, `${url} ${upgrade}`);
                    stranger.destroy();
                    assert.equal(await bridge.answers(), 200, url);
                }
        } finally {
            await bridge.stop();
        }
    }
});

test("an upgrade that is refused and resets its connection does not end the bridge", async () => {
    const bridge = await Bridge.start();
    try {
        for (let i = 0; i < 200; i++) {
            const stranger = await bridge.stranger(bridge.handshake().replace("Host: ", "Host: evil."));
            stranger.resetAndDestroy();
            if (i % 20 === 0) assert.equal(await bridge.answers(), 200);
        }
        assert.equal(await bridge.answers(), 200);
    } finally {
        await bridge.stop();
    }
});

test("pages that ask for everything again and read nothing do not make the bridge grow", async () => {
    const bridge = await Bridge.start();
    try {
        await bridge.publish(40, 25_000); // 4 MB of history
        const before = bridge.most_bytes;
        const select = frame('{"type":"select","source":0}');
        const floods = [
            Buffer.concat(Array(5000).fill(select)),
            Buffer.concat(Array(50).fill(Buffer.concat([select, frame('{"type":"ack","bytes":1e15}')]))),
            Buffer.concat(Array(20_000).fill(frame("x".repeat(125), 9))), // pings
        ];
        const strangers = await Promise.all(Array.from({ length: PLACES }, () => bridge.stranger(bridge.handshake())));
        strangers.forEach((stranger, i) => stranger.write(floods[i % floods.length]));
        await until("all floods are read or refused", () => bridge.unread === 0 && strangers.every((each) => each.destroyed || each.writableLength === 0));
        for (const each of strangers) each.destroy();
        assert.equal(await bridge.answers(), 200);
        const grown = bridge.most_bytes - before;
        assert.ok(grown < 250e6, `it grew by ${(grown / 1e6).toFixed(0)} MB`);
    } finally {
        await bridge.stop();
    }
});

test("pages that acknowledge nothing lose their place to others, and one address has none that another needs", async () => {
    const bridge = await Bridge.start();
    try {
        const idle = await Promise.all(Array.from({ length: PLACES }, () => bridge.stranger(bridge.handshake())));
        const busy: WebSocket[] = [];
        const another = async () => {
            const page = await bridge.page();
            if (page) busy.push(page);
            return page !== null;
        };
        await until("a page of the same address has a place", another);
        idle.forEach((each) => each.destroy());
        while (busy.length < PLACES) await until("another place is free", another);
        assert.equal(await bridge.page(), null, "pages that live keep their places from others of their address");
        const other = await bridge.page("127.0.0.2");
        assert.ok(other, "a page of another address has a place");
        for (const each of [...busy, other]) each.terminate();
    } finally {
        await bridge.stop();
    }
});

test("connections without a request leave others their descriptors", async () => {
    const bridge = await Bridge.start({ descriptors: 512 });
    try {
        const halves: Socket[] = [];
        for (let i = 0; i < 1000; i++) halves.push(await bridge.stranger("GET / HTTP/1.1\r\nHost: 127"));
        assert.equal(await bridge.answers("127.0.0.2"), 200);
        await until("the address of the others gets an answer again, too", async () => (await bridge.answers()) === 200);
        halves.forEach((each) => each.destroy());
    } finally {
        await bridge.stop();
    }
});
