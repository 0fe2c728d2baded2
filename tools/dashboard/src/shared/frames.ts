// SPDX-License-Identifier: GPL-3.0-or-later
// The messages between bridge and page. The bridge sends binary frames: length of the header (u32, little endian),
// header in JSON padded with blanks to a multiple of four bytes, float32 array. The page answers in JSON texts.
import type { Axis, Header } from "./protocol.js";

/** The header of a daemon's message without its axes, which are sent once and referred to by a number. A lofargram's
 * row is the mean of `integrated` windows, with the header of the first. */
export type RowHeader = Omit<Header, "axes"> & { integrated?: number };

export interface SourceState {
    name: string;
    endpoint: string;
    array: string | null;
    health: string | null; // of the last status
    text: string;
    status_age_ms: number | null; // since the last status that was not a repeat
    data_age_ms: number | null; // since the last window's spectrum
    refused: number; // messages that were not valid
    refused_why: string;
    missed: number; // messages that the bridge itself lost
    reopened: number; // number of times that the socket was reopened
    waits: string; // reason why nothing is received, to append to the endpoint; empty if no problem is known
}

export type ToPage =
    | { type: "hello"; version: string; history_s: number; sources: SourceState[] }
    | { type: "sources"; sources: SourceState[] }
    | { type: "axes"; id: number; axes: Axis[] }
    /** A row; age_ms since the bridge received it. A lofargram's row is for the direction az_deg. */
    | { type: "row"; source: number; axes: number; age_ms: number; header: RowHeader; az_deg?: number }
    /** The rows of a topic restart: another source or another direction. */
    | { type: "begin"; source: number; topic: string }
    /** Rows omitted because this page was too slow. */
    | { type: "dropped"; topic: string; rows: number };

export type FromPage =
    | { type: "select"; source: number }
    | { type: "want"; topics: string[] }
    | { type: "direction"; az_deg: number; anew: boolean }
    | { type: "ack"; bytes: number };

const encoder = new TextEncoder();
const decoder = new TextDecoder();

export function encodeFrame(header: ToPage, data?: Float32Array): Uint8Array {
    const json = encoder.encode(JSON.stringify(header));
    const padded = (json.length + 3) & ~3;
    const frame = new Uint8Array(4 + padded + (data ? data.byteLength : 0)).fill(0x20, 4, 4 + padded);
    new DataView(frame.buffer).setUint32(0, padded, true);
    frame.set(json, 4);
    if (data) frame.set(new Uint8Array(data.buffer, data.byteOffset, data.byteLength), 4 + padded);
    return frame;
}

export function decodeFrame(frame: ArrayBuffer): { header: ToPage; data: Float32Array } {
    const length = new DataView(frame).getUint32(0, true);
    const header = JSON.parse(decoder.decode(new Uint8Array(frame, 4, length))) as ToPage;
    return { header, data: new Float32Array(frame, 4 + length) };
}

/** Parses a page's request; null if it is not valid. */
export function parseRequest(json: string): FromPage | null {
    let said: FromPage;
    try {
        said = JSON.parse(json) as FromPage;
    } catch {
        return null;
    }
    switch (said?.type) {
        case "select":
            return Number.isInteger(said.source) ? said : null;
        case "want":
            return Array.isArray(said.topics) && said.topics.every((t) => typeof t === "string") ? said : null;
        case "direction":
            return Number.isFinite(said.az_deg) ? said : null;
        case "ack":
            return Number.isFinite(said.bytes) && said.bytes >= 0 ? said : null;
        default:
            return null;
    }
}
