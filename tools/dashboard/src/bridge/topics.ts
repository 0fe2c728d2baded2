// SPDX-License-Identifier: GPL-3.0-or-later
// What the bridge subscribes to, how much of it is kept, and which part of a surface is sent to a page.
import { axisValues, nearest, type Axis, type Message } from "../shared/protocol.js";
import type { Entry } from "./history.js";
import { unpack } from "./surfaces.js";

/** Topics of the page. Some are computed from the daemon's topics: element.level from element.psd. */
export interface Topic {
    name: string; // name on the page
    from: string; // the daemon's topic
    always: boolean; // subscribed to even without a page, so that a page that is opened late shows the last minutes;
    // surfaces are sent to a page only while it wants them
    // seconds: so that no message of a sound is skipped
    keep: "minutes" | "seconds" | "latest" | "surfaces";
    make?: (message: Message) => Message;
}

export const TOPICS: readonly Topic[] = [
    { name: "status", from: "status", always: true, keep: "latest" },
    { name: "detections", from: "detections", always: true, keep: "minutes" },
    { name: "tracks", from: "tracks", always: true, keep: "minutes" },
    { name: "cbf.azimuth", from: "cbf.azimuth", always: true, keep: "minutes" },
    { name: "mvdr.azimuth", from: "mvdr.azimuth", always: true, keep: "minutes" },
    { name: "cbf.normalised", from: "cbf.normalised", always: false, keep: "minutes" },
    { name: "mvdr.normalised", from: "mvdr.normalised", always: false, keep: "minutes" },
    { name: "cbf.sped", from: "cbf.sped", always: false, keep: "minutes" },
    { name: "cbf.nearfield", from: "cbf.nearfield", always: false, keep: "latest" },
    { name: "mvdr.nearfield", from: "mvdr.nearfield", always: false, keep: "latest" },
    { name: "mvdr.eigenvalues", from: "mvdr.eigenvalues", always: false, keep: "latest" },
    { name: "music.azimuth", from: "music.azimuth", always: false, keep: "latest" },
    { name: "cbf.lofar", from: "cbf.lofar", always: true, keep: "surfaces" },
    { name: "mvdr.spectrum", from: "mvdr.spectrum", always: false, keep: "surfaces" },
    { name: "beam.audio", from: "beam.audio", always: false, keep: "seconds" },
    { name: "element.level", from: "element.psd", always: false, keep: "latest", make: elementLevel },
    { name: "element.missing", from: "element.missing", always: false, keep: "latest" },
    { name: "element.position", from: "element.position", always: false, keep: "latest" },
];

/** Power of each channel: its density summed over the bins. The page needs nothing else from element.psd. */
export function elementLevel(message: Message): Message {
    const { header, data } = message;
    const [channels, bins] = header.shape;
    const [channel, frequency] = header.axes;
    const values = axisValues(frequency, bins);
    const width_hz = frequency.step ?? (bins > 1 ? (values[bins - 1] - values[0]) / (bins - 1) : 1);
    const power = new Float32Array(channels);
    for (let c = 0; c < channels; c++) {
        let sum = 0;
        for (let k = 0; k < bins; k++) sum += data[c * bins + k];
        power[c] = sum * width_hz;
    }
    const unit = header.unit?.replace(/\/Hz$/, "") ?? null;
    return { header: { ...header, topic: "element.level", shape: [channels], axes: [channel], unit }, data: power };
}

/** The spectrum of a surface [bin][direction] in the direction nearest to az_deg. */
export function slice(entry: Entry, az_deg: number): { data: Float32Array; axis: Axis; az_deg: number } {
    const [bins, directions] = entry.header.shape;
    const angles = axisValues(entry.axes.axes[1], directions);
    const column = nearest(angles, az_deg);
    const data = new Float32Array(bins);
    for (let k = 0; k < bins; k++) data[k] = unpack(entry.packed![k * directions + column]);
    return { data, axis: entry.axes.axes[0], az_deg: angles[column] };
}
