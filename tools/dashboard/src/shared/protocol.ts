// SPDX-License-Identifier: GPL-3.0-or-later
// The messages of sonard, as docs/protocol.md and docs/reading.md describe them: topic, header in JSON, array.

export const SCHEMA = "sonard/1";

/** One dimension of an array: all values, or the first and the distance between them. */
export interface Axis {
    name: string;
    unit: string | null;
    values?: number[];
    start?: number;
    step?: number;
    reference?: string; // of ranges: radial or abeam
}

export interface Detection {
    source: string;
    az_deg: number;
    bearing_deg: number | null;
    mirror_deg: number | null;
    bearing_sigma_deg?: number | null; // standard deviation of the bearing; null: not known
    side?: "port" | "starboard" | "unknown" | null; // null: the array is not a line
    side_confidence?: number | null;
    level: number;
    level_db: number;
    snr_db: number;
    width_deg: number | null; // null: not resolved from its neighbours
    range_m: number | null;
    range_unresolved: boolean;
    possible_image?: boolean; // the array hardly distinguishes it from a stronger contact: a grating lobe or a mirror
    // image
    contact?: number; // rows with the same number are one contact of this window
    rests_on?: string[]; // the sources of that contact's rows
}

/** One of the bearings that a track may have. */
export interface TrackBearing {
    bearing_deg: number;
    bearing_sigma_deg: number;
    rate_deg_per_min: number; // clockwise positive
    rate_sigma_deg_per_min: number;
    side: "port" | "starboard" | null; // null: the array has no sides
    probability: number; // that the contact is on this side
}

export interface Track {
    number: number;
    state: "tentative" | "confirmed" | "coasting" | "lost"; // lost: its last message
    existence: number;
    bearings: TrackBearing[]; // one, or both sides of a line
    az_deg: number; // of the first bearing, in the scan
    snr_db: number;
    age_s: number;
    unheard_s: number;
    contact: number | null;
    rests_on: string[];
    tones_hz?: number[]; // the most lasting first; not from daemons without tones
}

/** A beam whose time series is a row of beam.audio. */
export interface Beam {
    name: string;
    az_deg: number | null; // behind the last sample; null: not known
    bearing_deg: number | null;
    missing: number; // samples that are NaN
    track: number | null;
    track_state: string | null;
}

/** The fields that the dashboard uses; others are ignored. Unknown or not applicable is null. */
export interface Header {
    schema: string;
    topic: string;
    array: string;
    run: string;
    seq: number;
    window: number | null;
    sample_index: number | null;
    window_length?: number;
    epoch?: number;
    /** A double: ns since 1970, exact to some 256 ns, far finer than a display shows. */
    utc_ns: number | null;
    dtype: string;
    shape: number[];
    axes: Axis[];
    unit: string | null;
    bearing_reference: string;
    bearing_kind: string;
    heading_deg: number | null;
    ambiguous: boolean;
    axis_az_deg: number | null;
    axis_depression_deg: number | null;
    band_hz: number[] | null;
    fs_hz: number;
    sensors_used: number | null;
    sources?: { rule: string; median: number | null; most: number | null } | null; // of a bin, over the bins
    music?: { counted: boolean; median: number | null; most: number | null; bins: number } | null; // sources of a bin
    missing_share: { mean: number; worst: number } | null;
    flags: string[];
    latency_us: number | null;
    backend: string;
    config_version: string;
    detections?: Detection[];
    tracks?: Track[];
    beams?: Beam[];
    health?: string;
    text?: string;
}

export interface Message {
    header: Header;
    data: Float32Array;
}

/** The reason for which this reader refuses a message. */
export class ProtocolError extends Error {}

const text = new TextDecoder();

/** Decodes the three parts of a message. Throws ProtocolError if they violate the protocol. */
export function decode(parts: readonly Uint8Array[]): Message {
    if (parts.length !== 3) throw new ProtocolError(`a message has three parts, not ${parts.length}`);
    const topic = text.decode(parts[0]);
    const header = parseHeader(text.decode(parts[1]));
    if (header.topic !== topic) throw new ProtocolError(`topic '${topic}' with the header of '${header.topic}'`);
    return { header, data: decodeArray(header, parts[2]) };
}

function parseHeader(json: string): Header {
    let header: Header;
    try {
        header = JSON.parse(json) as Header;
    } catch {
        throw new ProtocolError("the header is not JSON");
    }
    if (typeof header !== "object" || header === null || header.schema !== SCHEMA)
        throw new ProtocolError(`schema '${String(header?.schema)}', this reader knows '${SCHEMA}'`);
    if (!Array.isArray(header.shape) || !header.shape.every((n) => Number.isInteger(n) && n >= 0))
        throw new ProtocolError("shape is not a list of counts");
    if (!Array.isArray(header.axes) || header.axes.length !== header.shape.length)
        throw new ProtocolError("there is not one axis for each dimension");
    header.axes.forEach((axis, i) => checkAxis(axis, header.shape[i]));
    if (!Array.isArray(header.flags)) throw new ProtocolError("flags is not a list");
    return header;
}

function checkAxis(axis: Axis, count: number): void {
    const known = Array.isArray(axis.values)
        ? axis.values.length === count && axis.values.every(Number.isFinite)
        : Number.isFinite(axis.start) && Number.isFinite(axis.step);
    if (!known) throw new ProtocolError(`axis '${axis.name}' does not define its ${count} values`);
}

/** A copy, because the parts of a message are not aligned for floats, and ZeroMQ owns their memory. */
function decodeArray(header: Header, body: Uint8Array): Float32Array {
    if (header.dtype !== "<f4") throw new ProtocolError(`dtype '${header.dtype}', this reader knows '<f4'`);
    const count = header.shape.reduce((product, n) => product * n, 1);
    if (body.byteLength !== 4 * count)
        throw new ProtocolError(`${body.byteLength} bytes for shape [${header.shape.join(", ")}]`);
    const data = new Float32Array(count);
    new Uint8Array(data.buffer).set(body);
    return data;
}

/** The values of an axis of count points. */
export function axisValues(axis: Axis, count: number): Float64Array {
    if (axis.values) return Float64Array.from(axis.values);
    return Float64Array.from({ length: count }, (_, i) => axis.start! + axis.step! * i);
}

/** Index of the value nearest to x. The values ascend. */
export function nearest(values: ArrayLike<number>, x: number): number {
    let low = 0;
    let high = values.length - 1;
    while (high - low > 1) {
        const middle = (low + high) >> 1;
        if (values[middle] <= x) low = middle;
        else high = middle;
    }
    return high >= 0 && Math.abs(values[high] - x) < Math.abs(values[low] - x) ? high : low;
}
