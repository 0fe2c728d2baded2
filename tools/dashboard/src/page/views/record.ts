// SPDX-License-Identifier: GPL-3.0-or-later
// The bearing-time record: CBF and MVDR side by side, or one of them, as power or as a ratio.
import { sourcesOf } from "../contacts.js";
import { element } from "../dom.js";
import { waitingText } from "../empty.js";
import { topicOf, type Beamformer } from "../kinds.js";
import { Panel } from "../panel.js";
import type { Record } from "../record.js";
import { settings } from "../settings.js";
import type { Context, View } from "./view.js";

/** What else the daemon needs for a topic. */
const NEEDS: { [topic: string]: string } = {
    "mvdr.azimuth": "mvdr.enabled is true",
    "cbf.normalised": "the scan is at least three beams wide",
    "mvdr.normalised": "mvdr.enabled is true, and the scan is at least three beams wide",
};

export class RecordView implements View {
    readonly name = "record";
    readonly title = "Record";
    readonly scrolls = true;
    readonly root = element("div", { class: "view record" });
    readonly panels: Panel[];
    private wanted: string[] = []; // since the last choice

    constructor(private readonly context: Context) {
        const make = (name: Beamformer, title: string) =>
            new Panel({
                name,
                title,
                record: () => this.recordOf(name),
                sight: context.sight,
                bearings: true,
                picked: (_, angle) => context.look(angle, true),
                heading: () => context.store.heading,
                followed: () => context.followed(),
                waiting: () => this.waiting(topicOf(name, settings.kind)),
                tracks: () => context.store.tracks.list,
                track: () => context.store.track,
                chose: (number) => context.followTrack(number),
                contacts: () => context.store.contacts.list.filter((contact) => sourcesOf(contact.now).includes(name)),
            });
        this.panels = [make("cbf", "CBF"), make("mvdr", "MVDR")];
        this.refresh();
    }

    /** Both, so that the choice of beamformers loses no rows. */
    wants(): string[] {
        return (["cbf", "mvdr"] as const).map((name) => topicOf(name, settings.kind)).filter((topic) => this.context.store.ratios.has(topic));
    }

    /** A ratio's record begins with its choice and ends with another, because the bridge sends no rows between them. */
    refresh(): void {
        const before = this.wanted;
        this.wanted = this.wants();
        const goesOn = (topic: string) => before.includes(topic) && this.wanted.includes(topic);
        for (const [topic, record] of this.context.store.ratios) if (!goesOn(topic)) record.clear();
        const shown = this.panels.filter((_, i) => settings.panels === "both" || settings.panels === ["cbf", "mvdr"][i]);
        this.root.replaceChildren(...shown.map((panel) => panel.root));
        this.panels.forEach((panel) => panel.forgetLevels());
    }

    draw(now_ms: number): void {
        for (const panel of this.panels) if (panel.root.isConnected) panel.draw(now_ms);
    }

    private recordOf(name: Beamformer): Record {
        return this.context.store.recordOf(topicOf(name, settings.kind))!;
    }

    private waiting(topic: string): string {
        const { store, sight } = this.context;
        const begins = sight.frozen ? "begins when the record goes on (space)" : "is computed from now on";
        return waitingText(store, topic, NEEDS[topic], store.ratios.has(topic) ? `, which ${begins}` : "");
    }
}
