// SPDX-License-Identifier: GPL-3.0-or-later
// Whether the data on the page are current: a frozen picture that looks normal is the worst failure of a display.
import { duration, utcDate, utcTime } from "./format.js";

const DEAD_MS = 2000;
const OLD_MS = 3000;

export interface Life {
    dead: boolean;
    text: string; // the reason, or that the data are old; empty if everything is normal
}

export interface Signs {
    now_ms: number;
    connected: boolean; // to the bridge
    status_ms: number | null; // arrival of the last status that was not a repeat
    data_ms: number | null; // arrival of the last spectrum
    data_utc_ms: number | null; // its time
    began_ms: number; // when the page began to wait
    waits: string; // reason why the bridge receives nothing, or empty
}

export function lifeOf(signs: Signs): Life {
    const { now_ms, status_ms } = signs;
    const silent_ms = now_ms - (status_ms ?? signs.began_ms);
    if (silent_ms > DEAD_MS) return { dead: true, text: `${whyDead(signs, silent_ms)}. ${lastData(signs)}` };
    if (signs.data_ms === null) return { dead: false, text: "" };
    const age_ms = now_ms - signs.data_ms;
    if (age_ms <= OLD_MS) return { dead: false, text: "" };
    return { dead: false, text: `DATA ${duration(age_ms / 1000)} OLD. ${lastData(signs)}` };
}

function whyDead(signs: Signs, silent_ms: number): string {
    const who = signs.connected ? "NO STATUS FROM THE DAEMON" : "NO CONNECTION TO THE BRIDGE";
    const why = signs.connected && signs.waits ? `: it ${signs.waits}` : "";
    return signs.status_ms === null ? who + why : `${who} FOR ${duration(silent_ms / 1000)}${why}`;
}

function lastData({ data_utc_ms }: Signs): string {
    return data_utc_ms === null ? "No data yet" : `Last data ${utcDate(data_utc_ms)} ${utcTime(data_utc_ms)}Z`;
}
