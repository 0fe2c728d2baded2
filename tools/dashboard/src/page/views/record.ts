// SPDX-License-Identifier: GPL-3.0-or-later
// The bearing-time record: CBF and MVDR side by side, or one of them.
import { sourcesOf } from "../contacts.js";
import { element } from "../dom.js";
import { waitingText } from "../empty.js";
import { Panel } from "../panel.js";
import { settings } from "../settings.js";
import type { Context, View } from "./view.js";

export class RecordView implements View {
    readonly name = "record";
    readonly title = "Record";
    readonly scrolls = true;
    readonly root = element("div", { class: "view record" });
    readonly panels: Panel[];

    constructor(context: Context) {
        const make = (name: "cbf" | "mvdr", title: string) =>
            new Panel({
                name,
                title,
                record: context.store[name],
                sight: context.sight,
                bearings: true,
                picked: (_, angle) => context.look(angle, true),
                heading: () => context.store.heading,
                followed: () => context.followed(),
                waiting: () => waitingText(context.store, `${name}.azimuth`, name === "mvdr" ? "mvdr.enabled is true" : ""),
                tracks: () => context.store.tracks.list,
                track: () => context.store.track,
                chose: (number) => context.followTrack(number),
                contacts: () => context.store.contacts.list.filter((contact) => sourcesOf(contact.now).includes(name)),
            });
        this.panels = [make("cbf", "CBF"), make("mvdr", "MVDR")];
        this.refresh();
    }

    wants(): string[] {
        return [];
    }

    refresh(): void {
        const shown = this.panels.filter((_, i) => settings.panels === "both" || settings.panels === ["cbf", "mvdr"][i]);
        this.root.replaceChildren(...shown.map((panel) => panel.root));
        this.panels.forEach((panel) => panel.forgetLevels());
    }

    draw(now_ms: number): void {
        for (const panel of this.panels) if (panel.root.isConnected) panel.draw(now_ms);
    }
}
