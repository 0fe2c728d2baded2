// SPDX-License-Identifier: GPL-3.0-or-later
// The line above all views: the daemon, the time, and the daemon's state.
import { choice, element, setText } from "./dom.js";
import { duration, latency, utcDate, utcTime } from "./format.js";
import { patience_ms } from "./record.js";
import { lossesOf, statusOf } from "./status.js";
import type { Store } from "./store.js";

export class Top {
    private daemon: HTMLSelectElement | null = null;
    private known = "";
    private clock = element("span", { class: "clock" });
    private badge = element("span", { class: "badge none" });
    private why = element("span", { class: "why" });
    private age = element("span", { id: "age" });
    private rates = element("span", { class: "dim" });
    private losses = element("span");

    constructor(
        private readonly root: HTMLElement,
        private readonly store: Store,
        private readonly selected: (source: number) => void,
    ) {}

    draw(now_ms: number, dead: boolean): void {
        this.drawDaemons();
        const time = performance.timeOrigin + now_ms;
        setText(this.clock, `${utcDate(time)} ${utcTime(time)}Z`);
        this.drawHealth(dead);
        this.drawData(now_ms);
    }

    private drawDaemons(): void {
        const names = this.store.sources.map((s) => [s.name, s.array].filter(Boolean).join(": ") || s.endpoint);
        const states = this.store.sources.map((s) =>
            s.status_age_ms === null || s.status_age_ms > 2000 ? " (silent)" : s.health === "ok" ? "" : ` (${s.health})`,
        );
        const texts = names.map((name, i) => name + (names.length > 1 ? states[i] : ""));
        const known = JSON.stringify([texts, this.store.selected]);
        if (known === this.known || (this.daemon && document.activeElement === this.daemon)) return;
        this.known = known;
        const values = texts.map((text, i): [string, string] => [String(i), text]);
        this.daemon = choice("daemon (s: the next)", values, String(this.store.selected), (v) => this.selected(Number(v)));
        this.root.replaceChildren(this.clock, this.daemon, this.badge, this.age, this.rates, this.losses, this.why);
    }

    private drawHealth(dead: boolean): void {
        const status = statusOf(this.store);
        const health = dead || !status ? "no status" : status.health;
        setText(this.badge, health);
        this.badge.className = `badge ${dead || !status ? "none" : status.health}`;
        setText(this.why, status && !dead ? status.text : "");
        this.why.title = this.why.textContent ?? "";
    }

    private drawData(now_ms: number): void {
        const row = this.store.newest;
        const age_ms = this.store.dataAge_ms(now_ms) ?? NaN;
        setText(this.age, row ? `data ${duration(age_ms / 1000)} old` : "no data");
        this.age.className = !row || age_ms > patience_ms(row) ? "bad" : "dim";
        const status = statusOf(this.store);
        const us = row?.header.latency_us;
        const words = [
            row ? `window ${row.header.window}` : "",
            us ? `latency ${latency(us)}` : "",
            row ? row.header.backend : "",
        ];
        setText(this.rates, words.filter(Boolean).join("  ·  "));
        const here = this.store.dropped;
        const { losses } = this.store;
        const text = [status ? lossText(lossesOf(status), losses.when) : "", here ? `${here} rows omitted: this page is too slow` : ""];
        setText(this.losses, text.filter(Boolean).join("  ·  "));
        this.losses.className = here ? "bad" : losses.recent ? "warn" : "dim";
    }
}

/** The largest loss, whether there are others, and when the last loss was. */
function lossText(losses: [string, number][], when: string): string {
    if (losses.length === 0) return "";
    const [cause, count] = losses.reduce((most, each) => (each[1] > most[1] ? each : most));
    return `lost: ${count.toLocaleString("en")} ${cause}${losses.length > 1 ? ", …" : ""}; ${when}`;
}
