// SPDX-License-Identifier: GPL-3.0-or-later
// The built bridge with peers that violate every rule: it continues, stays small, and has places for others.
import assert from "node:assert/strict";
import type { Socket } from "node:net";
import { test } from "node:test";
import type { WebSocket } from "ws";
import { Bridge, frame } from "./bridge.js";
import { until } from "./chain.js";

const PLACES = 64;

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
