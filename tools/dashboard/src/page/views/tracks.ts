// SPDX-License-Identifier: GPL-3.0-or-later
// The table of tracks, and below it all values of the followed one.
import type { TrackBearing } from "../../shared/protocol.js";
import { formatBearing, isTrue } from "../bearing.js";
import { element, setText } from "../dom.js";
import { waitingText } from "../empty.js";
import { duration } from "../format.js";
import { isStale } from "../heading.js";
import type { Store } from "../store.js";
import { SIGNS, type Followed } from "../tracks.js";
import { Table, type Head } from "./table.js";
import type { Context } from "./view.js";

const OLD_MS = 3000; // time since the last message of it, by the windows' times
const LISTED_MS = 20_000;

interface Column extends Head {
    /** turned_deg: what must be added to make its bearings true; 0 if they are, or if the heading is unknown. */
    cell(track: Followed, turned_deg: number): string;
}

const each = (track: Followed, text: (bearing: TrackBearing) => string) => track.now.bearings.map(text).join(" | ");
const sigma = (deg: number) => deg.toFixed(deg < 1 ? 2 : 1);
const rate = (deg: number) => (deg < 0 ? "\u2212" : "+") + Math.abs(deg).toFixed(2);

const NUMBER: Column = { head: "no.", title: "the daemon's number of the track", cell: ({ now }) => `${now.number}${SIGNS[now.state]}` };
const STATE: Column = {
    head: "state",
    title: "tentative (?): more probable than not; confirmed; coasting (…): has probably fallen silent; lost (×)",
    left: true,
    cell: ({ now }) => now.state,
};
const BEARING: Column = {
    head: "bearing",
    title: "true bearing (array frame without a heading), deg; of a line array both sides until a turn decides",
    left: true,
    name: "bearing",
    cell: (track, turned_deg) => each(track, (b) => formatBearing(b.bearing_deg + turned_deg)),
};
const SIGMA: Column = { head: "± deg", title: "standard deviation of the first bearing", cell: (track) => sigma(track.now.bearings[0].bearing_sigma_deg) };
const RATE: Column = { head: "deg/min", title: "rate of the first bearing, clockwise positive", cell: ({ now }) => rate(now.bearings[0].rate_deg_per_min) };
const AGE: Column = { head: "age", title: "since its first detection", cell: ({ now }) => duration(now.age_s) };
const BY: Column = { head: "by", title: "beamformers that saw its last detection, or the spectrum below the threshold", left: true, cell: ({ now }) => now.rests_on.join("+") };

export const SHORT_TRACKS: Column[] = [NUMBER, STATE, BEARING, SIGMA, RATE, AGE, BY];
export const FULL_TRACKS: Column[] = [
    NUMBER,
    STATE,
    { head: "existence", title: "probability that there is a contact", cell: ({ now }) => now.existence.toFixed(4) },
    BEARING,
    SIGMA,
    RATE,
    { head: "± deg/min", title: "standard deviation of the rate", cell: (track) => sigma(track.now.bearings[0].rate_sigma_deg_per_min) },
    {
        head: "side",
        title: "of a line array's axis, with its probability",
        left: true,
        cell: (track) => each(track, (b) => (b.side === null ? "–" : sideOf(b))),
    },
    { head: "SNR dB", title: "of its last detection", cell: ({ now }) => now.snr_db.toFixed(1) },
    AGE,
    { head: "heard", title: "since its last detection", cell: ({ now }) => heardText(now.unheard_s) },
    BY,
];

function sideOf({ side, probability }: TrackBearing): string {
    return `${side === "starboard" ? "stbd" : side} ${(100 * probability).toFixed(0)} %`;
}

function heardText(unheard_s: number): string {
    return unheard_s <= 0 ? "now" : `${duration(unheard_s)} ago`;
}

/** The tracks of the last seconds, and the followed one however long ago it was lost; lost ones last. */
export function listedTracks(store: Store): Followed[] {
    const { list } = store.tracks;
    const newest_ms = newestOf(list);
    const listed = list.filter((t) => newest_ms - t.last_ms < LISTED_MS || t.now.number === store.track);
    return listed.sort((a, b) => Number(isOver(a, newest_ms)) - Number(isOver(b, newest_ms)) || a.now.number - b.now.number);
}

function newestOf(list: readonly Followed[]): number {
    return Math.max(...list.map((t) => t.last_ms));
}

/** Lost, or no longer in the messages because its last one was lost. */
function isOver({ now, last_ms }: Followed, newest_ms: number): boolean {
    return now.state === "lost" || newest_ms - last_ms > OLD_MS;
}

export class TrackTable {
    readonly root: HTMLElement;
    private table: Table;
    private chosen = element("table", { class: "chosen", "aria-label": "the followed track" });

    constructor(
        private readonly context: Context,
        private readonly columns: Column[],
    ) {
        const { store, followTrack } = context;
        this.table = new Table(columns, "data-track", (number) => followTrack(number === store.track ? null : number));
        this.root = element("div", {}, [this.table.root, this.chosen]);
    }

    draw(): void {
        const { store } = this.context;
        const list = listedTracks(store);
        const newest_ms = newestOf(store.tracks.list);
        const stale = isStale(store.newest);
        const isGrey = ({ by }: Followed) => stale && !isTrue(by);
        const turned = (track: Followed) => (isGrey(track) ? (store.heading?.deg ?? null) : null);
        const rows = list.map((t) => ({
            id: t.now.number,
            cells: this.columns.map((column) => column.cell(t, turned(t) ?? 0)),
            classes: [t.now.number === store.track ? "followed" : "", isOver(t, newest_ms) ? "old" : "", isGrey(t) ? "stale" : ""].filter(Boolean).join(" "),
        }));
        this.table.draw(rows, list.length ? "" : this.whyNone());
        const track = store.tracks.find(store.track);
        this.chosen.hidden = track === null;
        if (track) this.show(track, turned(track), newest_ms);
        this.chosen.classList.toggle("stale", track !== null && isGrey(track));
    }

    /** The followed track's values; its rows change only if a side is dropped. */
    private show(track: Followed, turned_deg: number | null, newest_ms: number): void {
        const values = valuesOf(track, turned_deg, newest_ms);
        if (values.length !== this.chosen.rows.length) {
            const rows = values.map(([name]) => element("tr", {}, [element("th", {}), element("td", { class: name.startsWith("bearing") ? "bearing" : "" })]));
            this.chosen.replaceChildren(element("tbody", {}, rows));
        }
        values.forEach((value, i) => value.forEach((text, k) => setText(this.chosen.rows[i].children[k], text)));
    }

    private whyNone(): string {
        const { store } = this.context;
        if (!store.latest.has("tracks")) return waitingText(store, "tracks", "detections.enabled is true");
        return "None: no contact is probable yet.";
    }
}

/** Names and texts of a track's values. turned_deg: what makes its bearings true by the last heading; null: nothing. */
export function valuesOf({ now, by, last_ms }: Followed, turned_deg: number | null, newest_ms: number): [string, string][] {
    const since_s = (newest_ms - last_ms) / 1000;
    const frame = isTrue(by) || turned_deg !== null ? "true" : "array frame";
    const bearings = now.bearings.flatMap((b): [string, string][] => [
        ["bearing", `${formatBearing(b.bearing_deg + (turned_deg ?? 0))} ± ${sigma(b.bearing_sigma_deg)} deg ${frame}${b.side === null ? "" : `, ${sideOf(b)}`}`],
        ["rate", `${rate(b.rate_deg_per_min)} ± ${sigma(b.rate_sigma_deg_per_min)} deg/min`],
    ]);
    return [
        ["track", String(now.number)],
        ["state", `${now.state}${since_s > OLD_MS / 1000 ? `, ${duration(since_s)} ago` : ""}, existence ${now.existence.toFixed(4)}`],
        ...bearings,
        ["age", duration(now.age_s)],
        ["heard", heardText(now.unheard_s)],
        ["source", `${now.rests_on.join("+")}, SNR ${now.snr_db.toFixed(1)} dB`],
        ...(now.tones_hz?.length ? [["tones", `${now.tones_hz.map((hz) => hz.toFixed(1)).join(", ")} Hz`] as [string, string]] : []),
    ];
}
