// SPDX-License-Identifier: GPL-3.0-or-later
// Decoding, against messages that a daemon sent (tests/data: three parts, each after its length as u32).
import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { test } from "node:test";
import { decodeFrame, encodeFrame, parseRequest } from "../../src/shared/frames.js";
import { axisValues, decode, nearest, ProtocolError } from "../../src/shared/protocol.js";

function recorded(name: string): Buffer[] {
    const file = readFileSync(`tests/data/${name}.msg`);
    const parts: Buffer[] = [];
    for (let at = 0; at < file.length; ) {
        const length = file.readUInt32LE(at);
        parts.push(file.subarray(at + 4, at + 4 + length));
        at += 4 + length;
    }
    return parts;
}

test("every recorded message is understood, and its values are those of its bytes", () => {
    const names = readdirSync("tests/data").filter((file) => file.endsWith(".msg"));
    assert.equal(names.length, 9);
    for (const file of names) {
        const parts = recorded(file.replace(/\.msg$/, ""));
        const { header, data } = decode(parts);
        assert.equal(`${header.topic}.msg`, file);
        assert.equal(data.length, header.shape.reduce((a, b) => a * b, 1));
        for (let i = 0; i < data.length; i += 7) assert.equal(data[i], parts[2].readFloatLE(4 * i));
    }
});

test("the spectrum's maximum lies at the ship of the recorded scene", () => {
    const { header, data } = decode(recorded("cbf.azimuth"));
    const angles = axisValues(header.axes[0], header.shape[0]);
    assert.ok(Math.abs(angles[data.indexOf(Math.max(...data))] - 60) < 2);
});

test("a start and a step name the same values as a list", () => {
    const { header } = decode(recorded("cbf.lofar"));
    const values = axisValues(header.axes[0], header.shape[0]);
    assert.equal(values[0], header.axes[0].start);
    assert.equal(values[values.length - 1], header.axes[0].start! + header.axes[0].step! * (values.length - 1));
});

test("what is not a message of this protocol is refused with a reason", () => {
    const [topic, head, body] = recorded("cbf.azimuth");
    const changed = (from: string | RegExp, to: string) => Buffer.from(head.toString().replace(from, to));
    const wrong: [RegExp, Uint8Array[]][] = [
        [/three parts, not 2/, [topic, head]],
        [/topic 'status' with the header of 'cbf.azimuth'/, [Buffer.from("status"), head, body]],
        [/not JSON/, [topic, head.subarray(1), body]],
        [/schema 'sonard\/2'/, [topic, changed("sonard/1", "sonard/2"), body]],
        [/schema 'undefined'/, [topic, Buffer.from("null"), body]],
        [/dtype '<f8'/, [topic, changed("<f4", "<f8"), body]],
        [/bytes for shape/, [topic, head, body.subarray(4)]],
        [/one axis for each/, [topic, changed(/"shape":\s*\[/, '"shape":[1,'), body]],
        [/not a list of counts/, [topic, changed(/"shape":\s*\[\d+/, '"shape":[-1'), body]],
        [/does not define its/, [topic, changed(/"values":\s*\[\d+,/, '"values":['), body]],
        [/flags/, [topic, changed(/"flags":\s*\[\]/, '"flags":null'), body]],
    ];
    for (const [reason, parts] of wrong)
        assert.throws(() => decode(parts), (error) => error instanceof ProtocolError && reason.test(error.message), String(reason));
});

test("nearest is the nearest", () => {
    const values = [0, 5.4, 7.6, 9];
    for (let x = -2; x < 12; x += 0.1) {
        const best = values.reduce((a, _, i) => (Math.abs(values[i] - x) < Math.abs(values[a] - x) ? i : a), 0);
        assert.equal(nearest(values, x), best, String(x));
    }
    assert.equal(nearest([3], 10), 0);
});

test("a frame comes back as it was, also with letters of several bytes", () => {
    const header = { type: "begin", source: 3, topic: "µPa² – ü" } as const;
    const data = Float32Array.of(1.5, -2, 3e-30);
    const frame = encodeFrame(header, data);
    const back = decodeFrame(frame.buffer as ArrayBuffer);
    assert.deepEqual(back.header, header);
    assert.deepEqual(back.data, data);
    assert.equal(decodeFrame(encodeFrame(header).buffer as ArrayBuffer).data.length, 0);
});

test("what a page says is checked", () => {
    assert.deepEqual(parseRequest('{"type":"ack","bytes":5}'), { type: "ack", bytes: 5 });
    for (const wrong of ["", "{", "null", "[]", '{"type":"ack"}', '{"type":"want","topics":[1]}', '{"type":"select","source":"0"}', '{"type":"x"}'])
        assert.equal(parseRequest(wrong), null, wrong);
});
