// SPDX-License-Identifier: GPL-3.0-or-later
// Puts the page together: link, store, views and keys.
import type { Placed } from "./bearing.js";
import { lifeOf } from "./alarm.js";
import { element, setText } from "./dom.js";
import { headingText } from "./heading.js";
import { keys, showHelp } from "./keys.js";
import { Link } from "./link.js";
import { choices, choose, settings } from "./settings.js";
import type { Panel } from "./panel.js";
import { Sight } from "./sight.js";
import { Store } from "./store.js";
import { Tabs } from "./tabs.js";
import { Top } from "./top.js";
import { placedOf } from "./tracks.js";
import { ContactsView, Side } from "./views/contacts.js";
import { ElementsView } from "./views/elements.js";
import { EigenvaluesView } from "./views/eigenvalues.js";
import { HealthView } from "./views/health.js";
import { LofarView } from "./views/lofar.js";
import { NearFieldView } from "./views/nearfield.js";
import { NowView } from "./views/now.js";
import { RecordView } from "./views/record.js";
import type { Context, View } from "./views/view.js";

const FOLLOW_DEG = 0.05; // movement of a followed contact after which the lofargram's direction changes
const IDLE_MS = 200;
const DATA_MS = 30; // time between two pictures of the record with only newer data, so that a window's messages make
// one picture
const TEXT_MS = 200; // time between two drawings of everything beside the record: a reader cannot follow faster
// changes, and each change beside the record makes a browser without a GPU copy the whole screen
const WIDE_PX = 2200; // from this width on the record stays beside every other view

const store = new Store();
const sight = new Sight();
const main = document.getElementById("main")!;
const alarm = document.getElementById("alarm")!;
const heading = document.getElementById("heading")!;
const frames: number[] = []; // drawing times of the last pictures, in ms
let direction: number | null = null; // of the lofargram
let began_ms = performance.now();
let drawn = ""; // versions of everything that the user changes
let drawnVersion = -1; // of the data
let drawn_ms = -Infinity;
let beside_ms = -Infinity; // when everything beside the record was last drawn
let shownChoices = -1;
let shownWants = "";

const lofarSight = new Sight(); // its axis is frequency
const context: Context = { store, sight, look, lookSomewhere, follow, followTrack, followed };
const record = new RecordView(context);
const lofar = new LofarView(context, lofarSight);
const views: View[] = [
    record,
    new NowView(context),
    lofar,
    new NearFieldView(context),
    new ElementsView(context),
    new ContactsView(context),
    new HealthView(context),
    new EigenvaluesView(context),
];
const side = new Side(document.getElementById("side")!, context);
const tabs = new Tabs(document.getElementById("tabs")!, views, sight, togglePause);
const line = new Top(document.getElementById("top")!, store, select);
const link = new Link(
    (header, data) => {
        store.take(header, data);
        if (header.type === "hello") begin();
    },
    () => (shownWants = ""),
);

/** The bridge is connected and shows its first daemon: selects the one that was selected before. */
function begin(): void {
    const index = store.sources.findIndex((source) => source.endpoint === settings.daemon);
    const source = Math.max(0, index < 0 ? store.selected : index);
    if (source !== store.selected) store.select(source);
    if (source !== 0) link.send({ type: "select", source });
    if (direction !== null) link.send({ type: "direction", az_deg: direction, anew: true });
}

function select(source: number): void {
    if (source === store.selected || !store.sources[source]) return;
    choose({ daemon: store.sources[source].endpoint });
    store.select(source);
    side.listen.stop();
    direction = null;
    for (const each of [sight, lofarSight]) each.frozen = each.shown = null;
    for (const panel of panels()) panel.forgetRows();
    began_ms = performance.now();
    link.send({ type: "select", source });
}

function look(angle: number, from_start: boolean): void {
    direction = angle;
    link.send({ type: "direction", az_deg: angle, anew: from_start });
}

function lookSomewhere(): void {
    const angle = followed()?.az_deg;
    if (angle !== undefined && (direction === null || Math.abs(angle - direction) > FOLLOW_DEG)) look(angle, direction === null);
    if (direction !== null) return;
    const loudest = store.contacts.list.reduce<number | null>(
        (best, c, i, all) => (best === null || c.now.level_db > all[best].now.level_db ? i : best),
        null,
    );
    if (loudest !== null) look(store.contacts.list[loudest].now.az_deg, true);
}

function follow(id: number | null): void {
    Object.assign(store, { followed: id, track: null });
    lookThere();
}

function followTrack(number: number | null): void {
    Object.assign(store, { followed: null, track: number });
    lookThere();
}

/** Turns to what is followed from now on. */
function lookThere(): void {
    const there = followed();
    if (there) look(there.az_deg, true);
    sight.changed();
}

function followed(): Placed | null {
    const track = store.tracks.find(store.track);
    if (track) return placedOf(track.now);
    return store.contacts.list.find((c) => c.id === store.followed)?.now ?? null;
}

function togglePause(): void {
    const last = store.newest;
    if (sight.frozen) sight.frozen = lofarSight.frozen = null;
    else if (last) {
        const top_ms = last.utc_ms + last.span_ms;
        const rows = new Map([...store.spectra, store.lofar].map((each) => [each, each.rows.slice()]));
        for (const each of [sight, lofarSight]) each.frozen = { top_ms, rows };
    }
    for (const each of [sight, lofarSight]) each.changed();
    for (const panel of panels()) panel.forgetRows();
}

function panels(): Panel[] {
    return [...record.panels, lofar.panel];
}

function shownViews(): View[] {
    const chosen = views.find((view) => view.name === settings.view) ?? record;
    if (innerWidth < WIDE_PX) return [chosen];
    return [record, chosen === record ? (views[1] ?? record) : chosen].filter((v, i, all) => all.indexOf(v) === i);
}

function arrange(shown: View[]): void {
    if (shown.some((view, i) => main.children[i] !== view.root) || main.children.length !== shown.length) {
        main.replaceChildren(...shown.map((view) => view.root));
        main.classList.toggle("split", shown.length > 1);
    }
    if (choices !== shownChoices) {
        shownChoices = choices;
        views.forEach((view) => view.refresh?.());
        tabs.refresh();
    }
    // The record's topics also behind another view: its rows would begin again with each look at it.
    const wants = [...new Set([record, ...shown, side.listen].flatMap((view) => view.wants()))].sort();
    if (link.open && JSON.stringify(wants) !== shownWants) {
        shownWants = JSON.stringify(wants);
        link.send({ type: "want", topics: wants });
    }
}

function drawAlarm(now_ms: number): boolean {
    const row = store.newest;
    const life = lifeOf({
        now_ms,
        connected: link.open,
        status_ms: store.status_ms,
        data_ms: row?.arrived_ms ?? null,
        data_utc_ms: row?.utc_ms ?? null,
        began_ms,
        waits: store.sources[store.selected]?.waits ?? "",
    });
    document.body.classList.toggle("dead", life.dead);
    alarm.hidden = life.text === "";
    setText(alarm, life.text);
    const words = life.dead ? "" : headingText(row, store.heading); // only one message at a time
    heading.hidden = words === "";
    setText(heading, words);
    return life.dead;
}

/** Draws if something has changed, and regularly for values that change with time. */
function frame(): void {
    requestAnimationFrame(frame);
    const now_ms = performance.now();
    const seen = `${sight.version} ${lofarSight.version} ${choices} ${innerWidth} ${innerHeight}`;
    const wait_ms = store.version === drawnVersion ? IDLE_MS : DATA_MS;
    if (seen === drawn && now_ms - drawn_ms < wait_ms) return;
    const touched = seen !== drawn;
    drawn = seen;
    drawnVersion = store.version;
    drawn_ms = now_ms;
    const shown = shownViews();
    arrange(shown);
    const dead = drawAlarm(now_ms);
    const all = touched || now_ms - beside_ms >= TEXT_MS;
    for (const view of shown) if (all || view.scrolls) view.draw(now_ms);
    if (all) {
        line.draw(now_ms, dead);
        side.draw();
        beside_ms = now_ms;
    }
    frames.push(performance.now() - now_ms);
    if (frames.length > 2000) frames.shift();
}

keys({ store, sight, views, record, togglePause, select, follow, followTrack, listen: () => side.listen.toggle() });
document.getElementById("help")!.append(showHelp(), element("p", { class: "dim" }, ["Esc closes"]));
requestAnimationFrame(frame);

// for the tests and for debugging: what is drawn, and from what data
Object.assign(window, { sonard: { store, sight, panels: panels(), views, settings, frames, link, listen: side.listen } });
