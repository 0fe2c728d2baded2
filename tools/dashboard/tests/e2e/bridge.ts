// SPDX-License-Identifier: GPL-3.0-or-later
// The built bridge beside a daemon that the test plays, and peers that need not keep to any rule.
import assert from "node:assert/strict";
import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { get, type IncomingMessage } from "node:http";
import { connect, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { WebSocket } from "ws";
import { Publisher } from "zeromq";
import { decodeFrame } from "../../src/shared/frames.js";
import { decode } from "../../src/shared/protocol.js";
import { announced, recorded, until } from "./chain.js";

const TOKEN = "0123456789abcdef";

/** A bridge that reads what the test publishes. */
export class Bridge {
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
        socket.on("error", () => undefined); // the bridge may hang up whenever it wants
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

    /** Bytes that have come to the bridge's machine and that the bridge has not read. */
    get unread(): number {
        const port = this.port.toString(16).toUpperCase().padStart(4, "0");
        const lines = readFileSync("/proc/net/tcp", "utf8").split("\n").map((line) => line.trim().split(/\s+/));
        return lines.reduce((sum, words) => sum + (words[1]?.endsWith(`:${port}`) && words[3] === "01" ? parseInt(words[4].split(":")[1], 16) : 0), 0);
    }

    get most_bytes(): number {
        return 1024 * Number(/VmHWM:\s+(\d+)/.exec(readFileSync(`/proc/${this.process.pid}/status`, "utf8"))![1]);
    }

    /** Publishes rows of a spectrum with this number of directions until the bridge shows them. */
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
export function frame(text: string, opcode = 1): Buffer {
    const head = [0x80 | opcode, 0x80 | (text.length < 126 ? text.length : 126)];
    if (text.length >= 126) head.push(text.length >> 8, text.length & 255);
    return Buffer.concat([Buffer.from([...head, 0, 0, 0, 0]), Buffer.from(text)]);
}
