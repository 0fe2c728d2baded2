// SPDX-License-Identifier: GPL-3.0-or-later
// The keyboard: everything that the user can do, except pointing.
import { PALETTES } from "./colour.js";
import { element } from "./dom.js";
import { KINDS, type Kind } from "./kinds.js";
import { NORMALISATIONS, type Normalisation } from "./normalise.js";
import { choose, RANGES, recordScale, settings, shownScale } from "./settings.js";
import type { Sight } from "./sight.js";
import type { Store } from "./store.js";
import type { RecordView } from "./views/record.js";
import { listedTracks } from "./views/tracks.js";
import type { View } from "./views/view.js";

export interface Hands {
    store: Store;
    sight: Sight;
    views: View[];
    record: RecordView;
    togglePause(): void;
    select(source: number): void;
    follow(contact: number | null): void;
    followTrack(number: number | null): void;
    listen(): void;
}

export const SPANS_S = [15, 30, 60, 120, 300, 600];
const PANELS = ["both", "cbf", "mvdr"] as const;

interface Key {
    keys: string[];
    shown: string;
    what: string;
    press(hands: Hands): void;
}

const KEYS: Key[] = [
    { keys: ["1", "2", "3", "4", "5", "6", "7", "8"], shown: "1 … 8", what: "the views, in the order of their buttons", press: () => undefined },
    { keys: [" "], shown: "space", what: "stop and continue; while stopped, the record is kept and can be dragged in time", press: (h) => h.togglePause() },
    { keys: ["b"], shown: "b", what: "CBF and MVDR, CBF, MVDR", press: () => choose({ panels: after(PANELS, settings.panels) }) },
    { keys: ["p"], shown: "p", what: "records of power, of power over the noise around, of the peaks of each frequency", press: () => choose({ kind: after(Object.keys(KINDS) as Kind[], settings.kind) }) },
    { keys: ["t"], shown: "t", what: "bearings of the array, true bearings", press: () => turnFrame() },
    { keys: ["n"], shown: "n", what: "normalisation of power: none, split-window two-pass mean, row mean", press: () => nextNormalisation() },
    { keys: ["c"], shown: "c", what: "colour map", press: () => choose({ palette: after(PALETTES, settings.palette) }) },
    { keys: ["a"], shown: "a", what: "level range automatic, by hand", press: (h) => toggleLevels(h) },
    { keys: ["PageUp", "PageDown"], shown: "PgUp PgDn", what: "level range up, down by 3 dB (by hand)", press: () => undefined },
    { keys: ["d"], shown: "d", what: "detections drawn or not", press: () => choose({ marks: !settings.marks }) },
    { keys: ["l"], shown: "l", what: "lines of tracks drawn or not", press: () => choose({ tracks: !settings.tracks }) },
    { keys: ["m"], shown: "m", what: "MUSIC beside the azimuth spectra or not", press: () => choose({ music: !settings.music }) },
    { keys: ["[", "]"], shown: "[ ]", what: "less, more time in the record", press: () => undefined },
    { keys: ["+", "=", "-"], shown: "+ -", what: "zoom in bearing, about the cursor", press: () => undefined },
    { keys: ["0"], shown: "0", what: "all bearings", press: (h) => ((h.sight.shown = null), h.sight.changed()) },
    { keys: ["ArrowLeft", "ArrowRight", "ArrowUp", "ArrowDown"], shown: "arrows", what: "cursor; with shift, pan", press: () => undefined },
    { keys: ["f"], shown: "f", what: "follow the next contact; Esc follows none", press: (h) => followNext(h) },
    { keys: ["g"], shown: "g", what: "follow the next track; Esc follows none", press: (h) => followNextTrack(h) },
    { keys: ["s"], shown: "s", what: "next daemon", press: (h) => h.select((h.store.selected + 1) % Math.max(1, h.store.sources.length)) },
    { keys: ["e"], shown: "e", what: "ear: listen to a beam, or stop", press: (h) => h.listen() },
    { keys: ["?", "h"], shown: "? h", what: "this help", press: () => toggleHelp() },
];

export function keys(hands: Hands): void {
    addEventListener("keydown", (event) => {
        const target = event.target as HTMLElement;
        if (event.ctrlKey || event.altKey || event.metaKey || target.matches?.("input, select, textarea")) return;
        if (event.key === " " && target.matches?.("button, tr")) return; // a focused button or table row uses the space
        // key itself
        if (event.key === "Escape") escape(hands);
        else if (!pressed(hands, event)) return;
        event.preventDefault();
    });
}

export function showHelp(): HTMLElement {
    const rows = KEYS.map((key) => element("tr", {}, [element("td", {}, [key.shown]), element("td", {}, [key.what])]));
    const mouse: [string, string][] = [
        ["pointer", "reads bearing, time and level; wheel zooms in bearing, dragging pans, double click shows all"],
        ["click", "in the record: the lofargram's direction; on a track's line or number, or in the tables: follows it"],
    ];
    rows.push(...mouse.map(([a, b]) => element("tr", {}, [element("td", {}, [a]), element("td", {}, [b])])));
    return element("table", {}, [element("tbody", {}, rows)]);
}

export function toggleHelp(): void {
    const help = document.getElementById("help")!;
    help.hidden = !help.hidden;
}

export function changeSpan(by: number): void {
    const at = SPANS_S.findIndex((s) => s >= settings.span_s);
    choose({ span_s: SPANS_S[Math.max(0, Math.min(SPANS_S.length - 1, at + by))] });
}

export function toggleLevels(hands: Pick<Hands, "record">): void {
    const levels = hands.record.panels[0].levels ?? hands.record.panels[1].levels;
    const [low, high] = RANGES[recordScale()];
    choose({ automatic: !settings.automatic, ...(settings.automatic && levels ? { [low]: levels.low_db, [high]: levels.high_db } : {}) });
}

function pressed(hands: Hands, event: KeyboardEvent): boolean {
    const view = hands.views[Number(event.key) - 1];
    if (event.key !== "0" && view) choose({ view: view.name });
    else if (event.key === "[" || event.key === "]") changeSpan(event.key === "[" ? -1 : 1);
    else if (event.key === "PageUp" || event.key === "PageDown") shiftLevels(hands, event.key === "PageUp" ? 3 : -3);
    else if (["+", "=", "-"].includes(event.key)) zoom(hands, event.key === "-" ? 1.25 : 0.8);
    else if (event.key.startsWith("Arrow")) arrow(hands, event);
    else {
        const key = KEYS.find((k) => k.keys.includes(event.key));
        if (!key) return false;
        key.press(hands);
    }
    return true;
}

function escape(hands: Hands): void {
    const help = document.getElementById("help")!;
    if (!help.hidden) help.hidden = true;
    else hands.follow(null);
}

function after<T>(values: readonly T[], value: T): T {
    return values[(values.indexOf(value) + 1) % values.length];
}

function turnFrame(): void {
    choose({ frame: settings.frame === "array" ? "true" : "array" });
}

function nextNormalisation(): void {
    if (shownScale() === "power") choose({ normalisation: after(Object.keys(NORMALISATIONS) as Normalisation[], settings.normalisation) });
}

function shiftLevels(hands: Hands, by: number): void {
    if (settings.automatic) toggleLevels(hands);
    const [low, high] = RANGES[shownScale()];
    choose({ [low]: settings[low] + by, [high]: settings[high] + by });
}

function zoom(hands: Hands, factor: number): void {
    const panel = hands.record.panels[0].whole() ? hands.record.panels[0] : hands.record.panels[1];
    const [whole, shown] = [panel.whole(), panel.shown()];
    if (whole && shown) hands.sight.zoom(whole, hands.sight.cursor?.x ?? (shown.low + shown.high) / 2, factor);
}

function arrow(hands: Hands, event: KeyboardEvent): void {
    const panel = hands.record.panels[0].whole() ? hands.record.panels[0] : hands.record.panels[1];
    const [whole, shown] = [panel.whole(), panel.shown()];
    if (!whole || !shown) return;
    const { sight, store } = hands;
    const sideways = event.key === "ArrowLeft" ? -1 : event.key === "ArrowRight" ? 1 : 0;
    const width = shown.high - shown.low;
    if (event.shiftKey && sideways) {
        sight.pan(whole, (sideways * width) / 10);
        return;
    }
    const newest = store.newest!;
    const at = sight.cursor ?? { x: (shown.low + shown.high) / 2, utc_ms: newest.utc_ms };
    const later = event.key === "ArrowUp" ? 1 : event.key === "ArrowDown" ? -1 : 0;
    const time = sight.frozen && event.shiftKey ? sight.frozen : null;
    if (time) time.top_ms += later * 100 * settings.span_s;
    const x = Math.max(shown.low, Math.min(shown.high, at.x + (sideways * width) / 400));
    sight.cursor = { x, utc_ms: at.utc_ms + later * newest.span_ms };
    sight.changed();
}

function followNext(hands: Hands): void {
    const { list } = hands.store.contacts;
    if (list.length === 0) return;
    const at = list.findIndex((contact) => contact.id === hands.store.followed);
    hands.follow(list[(at + 1) % list.length].id);
}

function followNextTrack(hands: Hands): void {
    const list = listedTracks(hands.store);
    if (list.length === 0) return;
    const at = list.findIndex(({ now }) => now.number === hands.store.track);
    hands.followTrack(list[(at + 1) % list.length].now.number);
}
