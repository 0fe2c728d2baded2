// SPDX-License-Identifier: GPL-3.0-or-later
// The lofargram: spectral density over time in one direction, that of the last click or of a followed contact.
import { bearingsOf, formatBearing, hasTrue } from "../bearing.js";
import { choice, element, setText } from "../dom.js";
import { waitingText } from "../empty.js";
import { Panel } from "../panel.js";
import { choose, settings } from "../settings.js";
import type { Sight } from "../sight.js";
import type { Context, View } from "./view.js";

export class LofarView implements View {
    readonly name = "lofar";
    readonly title = "Lofargram";
    readonly scrolls = true;
    readonly root: HTMLElement;
    readonly panel: Panel;
    private where = element("b");
    private pick: HTMLSelectElement;

    constructor(
        private readonly context: Context,
        sight: Sight,
    ) {
        this.panel = new Panel({
            name: "lofar",
            title: "Lofargram",
            record: () => context.store.lofar,
            sight,
            bearings: false,
            picked: () => undefined,
            heading: () => null,
            followed: () => null,
            contacts: () => [],
            tracks: () => [],
            track: () => null,
            chose: () => undefined,
            waiting: () => waitingText(context.store, settings.surface, settings.surface === "cbf.lofar" ? "" : "mvdr.enabled is true"),
        });
        this.pick = choice("surface", [["cbf.lofar", "CBF"], ["mvdr.spectrum", "MVDR"]], settings.surface, (surface) => choose({ surface }));
        this.panel.root.querySelector("h2")!.after(this.where, this.pick);
        this.root = element("div", { class: "view" }, [this.panel.root]);
    }

    wants(): string[] {
        return [settings.surface];
    }

    refresh(): void {
        this.pick.value = settings.surface;
        this.panel.forgetLevels();
    }

    draw(now_ms: number): void {
        this.context.lookSomewhere();
        const row = this.context.store.lofar.last;
        const angle = row?.az_deg ?? null;
        const sides = row && angle !== null && hasTrue(row.header) ? bearingsOf(row.header, angle).map((b) => formatBearing(b)) : [];
        const { followed, track } = this.context.store;
        const words = [
            angle === null ? "" : `${angle.toFixed(1)} deg`,
            sides.length ? `true ${sides.join(" | ")}` : "",
            this.context.followed() === null ? "" : track === null ? `follows contact ${followed}` : `follows track ${track}`,
        ];
        setText(this.where, words.filter(Boolean).join("  ·  "));
        this.panel.draw(now_ms);
    }
}
