// SPDX-License-Identifier: GPL-3.0-or-later
// Puts the page together: link, store, views and keys.
import { lifeOf } from "./alarm.js";
import { element, setText } from "./dom.js";
import { keys, showHelp } from "./keys.js";
import { Link } from "./link.js";
import { choices, choose, settings } from "./settings.js";
import { Sight } from "./sight.js";
import { Store } from "./store.js";
import { Tabs } from "./tabs.js";
import { Top } from "./top.js";
import { RecordView } from "./views/record.js";
import type { Context, View } from "./views/view.js";

const WIDE_PX = 2200; // from here on the record stays beside every other view

const store = new Store();
const sight = new Sight();
const main = document.getElementById("main")!;
const alarm = document.getElementById("alarm")!;
const frames: number[] = []; // how long the last ones took to draw, in ms
let direction: number | null = null; // of the lofargram
let began_ms = performance.now();
let shownChoices = -1;
let shownWants = "";

const context: Context = { store, sight, look, follow, followed };
const record = new RecordView(context);
const views: View[] = [record];
const tabs = new Tabs(document.getElementById("tabs")!, views, sight, togglePause);
const line = new Top(document.getElementById("top")!, store, select);
const link = new Link(
    (header, data) => {
        store.take(header, data);
        if (header.type === "hello") begin();
    },
    () => (shownWants = ""),
);

/** The bridge is there, and shows its first daemon: choose the one that was chosen before. */
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
    sight.frozen = null;
    sight.shown = null;
    record.panels.forEach((panel) => panel.forgetRows());
    began_ms = performance.now();
    link.send({ type: "select", source });
}

function look(angle: number, anew: boolean): void {
    direction = angle;
    link.send({ type: "direction", az_deg: angle, anew });
}

function follow(contact: number | null): void {
    store.followed = contact;
    const angle = followed();
    if (angle !== null) look(angle, true);
    sight.changed();
}

function followed(): number | null {
    return store.contacts.list.find((c) => c.id === store.followed)?.now.az_deg ?? null;
}

function togglePause(): void {
    const last = store.newest;
    sight.frozen =
        sight.frozen || !last
            ? null
            : {
                  top_ms: last.utc_ms + last.span_ms,
                  rows: new Map([
                      ["cbf", store.cbf.rows.slice()],
                      ["mvdr", store.mvdr.rows.slice()],
                      ["lofar", store.lofar.rows.slice()],
                  ]),
              };
    record.panels.forEach((panel) => panel.forgetRows());
    sight.changed();
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
    const wants = [...new Set(shown.flatMap((view) => view.wants()))].sort();
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
    });
    document.body.classList.toggle("dead", life.dead);
    alarm.hidden = life.text === "";
    setText(alarm, life.text);
    return life.dead;
}

function frame(): void {
    const now_ms = performance.now();
    const shown = shownViews();
    arrange(shown);
    line.draw(now_ms, drawAlarm(now_ms));
    for (const view of shown) view.draw(now_ms);
    frames.push(performance.now() - now_ms);
    if (frames.length > 2000) frames.shift();
    requestAnimationFrame(frame);
}

keys({ store, sight, views, record, togglePause, select, follow });
document.getElementById("help")!.append(showHelp(), element("p", { class: "dim" }, ["Esc closes"]));
requestAnimationFrame(frame);

// For the tests and the curious: what is drawn and what it is drawn from.
Object.assign(window, { sonard: { store, sight, record, views, settings, frames, link } });
