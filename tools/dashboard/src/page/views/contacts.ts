// SPDX-License-Identifier: GPL-3.0-or-later
// The tables of contacts and tracks: in full as a view, and short beside every view.
import { formatBearing, isSided, sideText } from "../bearing.js";
import { isNorthed, sourcesOf, type Contact } from "../contacts.js";
import { element } from "../dom.js";
import { waitingText } from "../empty.js";
import { duration, fixed, utcTime } from "../format.js";
import { isStale } from "../heading.js";
import { Table, type Head } from "./table.js";
import { FULL_TRACKS, SHORT_TRACKS, TrackTable } from "./tracks.js";
import { ListenPanel } from "./listen.js";
import type { Context, View } from "./view.js";

const OLD_MS = 3000; // time since the last sighting, by the windows' times

interface Column extends Head {
    /** heading_deg: what must be added to make the contact's bearings true; 0 if they are, or if the heading is
     * unknown. */
    cell(contact: Contact, newest_ms: number, heading_deg: number): string;
}

const BEARING: Column = {
    head: "bearing",
    title: "true bearing of a source in the horizontal plane (array frame without a heading), deg; of a line array right | left of its axis, or where the side is known the bearing there (its image)",
    left: true,
    name: "bearing",
    cell: ({ now }, _, heading_deg) => {
        const [bearing, mirror] = [now.bearing_deg, now.mirror_deg].map((deg) => formatBearing(deg === null ? null : deg + heading_deg));
        if (now.mirror_deg === null) return bearing;
        return isSided(now) ? `${bearing} (${mirror})` : `${bearing} | ${mirror}`;
    },
};
const SIGMA: Column = {
    head: "± deg",
    title: "standard deviation of the bearing: by noise, and by the errors that array.error declares",
    cell: ({ now }) => (now.bearing_sigma_deg == null ? "–" : now.bearing_sigma_deg.toFixed(now.bearing_sigma_deg < 1 ? 2 : 1)),
};
const SIDE: Column = {
    head: "side",
    title: "of a line array's axis, as a turn has told it; ?: still open",
    left: true,
    cell: ({ now }) => sideText(now.side),
};
const LEVEL: Column = { head: "level dB", title: "level, dB re 1 of the spectrum's unit", cell: ({ now }) => now.level_db.toFixed(1) };
const SNR: Column = { head: "SNR dB", title: "over the background, dB", cell: ({ now }) => now.snr_db.toFixed(1) };
const RANGE: Column = {
    head: "range m",
    title: "range, m; ~: uncertain, because the ranges are too coarse there",
    cell: ({ now }) => (now.range_m === null ? "–" : `${now.range_unresolved ? "~" : ""}${now.range_m.toFixed(0)}`),
};
const BY: Column = { head: "by", title: "beamformers that found it", left: true, cell: ({ now }) => sourcesOf(now).join("+") };
const IMAGE: Column = {
    head: "image",
    title: "possible: the array shows at least half of a stronger contact there, so that this may be its grating lobe or mirror image",
    left: true,
    cell: ({ now }) => (now.possible_image ? "possible" : ""),
};

const SHORT: Column[] = [BEARING, SIGMA, SIDE, LEVEL, SNR, RANGE, BY, IMAGE];
const FULL: Column[] = [
    { head: "no.", title: "number that this page gave it", cell: ({ id }) => String(id) },
    BEARING,
    SIGMA,
    {
        ...SIDE,
        title: `${SIDE.title}; share of the windows that can tell which speaks for it`,
        cell: ({ now }) => `${sideText(now.side)}${isSided(now) ? ` ${(100 * (now.side_confidence ?? 0)).toFixed(0)} %` : ""}`,
    },
    { head: "rel. angle", title: "angle on the array's own axis, deg", cell: ({ now }) => now.az_deg.toFixed(2) },
    LEVEL,
    SNR,
    RANGE,
    { head: "width", title: "-3 dB width, deg", cell: ({ now }) => fixed(now.width_deg, 2) },
    BY,
    IMAGE,
    { head: "first seen UTC", title: "first window of it that this page saw", cell: ({ first_ms }) => utcTime(first_ms) },
    { head: "held", title: "from the first to the last sighting", cell: ({ first_ms, last_ms }) => duration((last_ms - first_ms) / 1000) },
    {
        head: "last seen",
        title: "before the newest window",
        cell: ({ last_ms }, newest_ms) => (newest_ms - last_ms < 1 ? "now" : `${duration((newest_ms - last_ms) / 1000)} ago`),
    },
];

export class ContactTable {
    readonly root: HTMLElement;
    private table: Table;

    constructor(
        private readonly context: Context,
        private readonly columns: Column[],
    ) {
        const { store, follow } = context;
        this.table = new Table(columns, "data-id", (id) => follow(id === store.followed ? null : id));
        this.root = this.table.root;
    }

    draw(): void {
        const { store } = this.context;
        const list = [...store.contacts.list];
        const newest_ms = Math.max(...list.map((c) => c.last_ms));
        const isOld = (contact: Contact) => newest_ms - contact.last_ms > OLD_MS;
        list.sort((a, b) => Number(isOld(a)) - Number(isOld(b)) || b.now.level_db - a.now.level_db);
        const stale = isStale(store.newest);
        const isGrey = (contact: Contact) => stale && !isNorthed(contact);
        const rows = list.map((c) => ({
            id: c.id,
            cells: this.columns.map((column) => column.cell(c, newest_ms, isGrey(c) ? (store.heading?.deg ?? 0) : 0)),
            classes: [c.id === store.followed ? "followed" : "", isOld(c) ? "old" : "", isGrey(c) ? "stale" : ""].filter(Boolean).join(" "),
        }));
        this.table.draw(rows, list.length ? "" : this.whyNone());
    }

    private whyNone(): string {
        const { store } = this.context;
        if (!store.latest.has("detections")) return waitingText(store, "detections");
        return "None: no peak stands detections.threshold_db above its background.";
    }
}

/** The column beside every view. */
export class Side {
    readonly listen: ListenPanel;
    private contacts: ContactTable;
    private tracks: TrackTable;

    constructor(root: HTMLElement, context: Context) {
        this.contacts = new ContactTable(context, SHORT);
        this.tracks = new TrackTable(context, SHORT_TRACKS);
        this.listen = new ListenPanel(context);
        root.append(
            element("h2", {}, ["Contacts"]),
            this.contacts.root,
            element("h2", {}, ["Tracks"]),
            this.tracks.root,
            element("h2", {}, ["Listen"]),
            this.listen.root,
        );
    }

    draw(): void {
        this.contacts.draw();
        this.tracks.draw();
        this.listen.draw();
    }
}

export class ContactsView implements View {
    readonly name = "contacts";
    readonly title = "Contacts";
    readonly root = element("div", { class: "view scroll" });
    private contacts: ContactTable;
    private tracks: TrackTable;

    constructor(context: Context) {
        this.contacts = new ContactTable(context, FULL);
        this.tracks = new TrackTable(context, FULL_TRACKS);
        this.root.append(element("section", { class: "panel pad" }, [this.contacts.root, element("h2", {}, ["Tracks"]), this.tracks.root]));
    }

    wants(): string[] {
        return [];
    }

    draw(): void {
        this.contacts.draw();
        this.tracks.draw();
    }
}
