// SPDX-License-Identifier: GPL-3.0-or-later
// The buttons that select the view and the look of the record.
import { PALETTES } from "./colour.js";
import { button, choice, element } from "./dom.js";
import { duration } from "./format.js";
import { SPANS_S, toggleHelp } from "./keys.js";
import { KINDS, type Kind } from "./kinds.js";
import { NORMALISATIONS, type Normalisation } from "./normalise.js";
import { choose, RANGES, settings, shownScale, type Scale, type Settings } from "./settings.js";
import type { Sight } from "./sight.js";
import type { View } from "./views/view.js";

export class Tabs {
    constructor(
        private readonly root: HTMLElement,
        private readonly views: readonly View[],
        private readonly sight: Sight,
        private readonly togglePause: () => void,
    ) {}

    refresh(): void {
        this.root.replaceChildren(this.viewButtons(), this.recordButtons(), this.levelButtons(), this.others());
    }

    /** The pause button follows the sight, which the keyboard changes too. */
    private pause(): HTMLButtonElement {
        const made = button("Stop", "stop and continue (space)", this.togglePause);
        const show = () => {
            made.textContent = this.sight.frozen ? "Go (stopped)" : "Stop";
            made.setAttribute("aria-pressed", String(this.sight.frozen !== null));
            if (made.isConnected) requestAnimationFrame(show);
        };
        requestAnimationFrame(show);
        return made;
    }

    private viewButtons(): HTMLElement {
        const made = this.views.map((view, i) => {
            const tab = button(view.title, `${view.title} (${i + 1})`, () => choose({ view: view.name }));
            tab.setAttribute("aria-pressed", String(settings.view === view.name));
            return tab;
        });
        return element("span", { class: "group" }, made);
    }

    private recordButtons(): HTMLElement {
        const kinds = (Object.keys(KINDS) as Kind[]).map((kind): [string, string] => [kind, KINDS[kind].text]);
        const spans = SPANS_S.map((s): [string, string] => [String(s), duration(s).replace(/ 0 s$/, "")]);
        return element("span", { class: "group" }, [
            pick("beamformers (b)", "panels", [["both", "CBF, MVDR"], ["cbf", "CBF"], ["mvdr", "MVDR"]]),
            pick("the records show (p)", "kind", kinds),
            pick("bearings (t)", "frame", [["array", "of the array"], ["true", "true"]]),
            choice("time in the record ([ ])", spans, String(settings.span_s), (v) => choose({ span_s: Number(v) })),
            this.pause(),
        ]);
    }

    private levelButtons(): HTMLElement {
        const kinds = (Object.keys(NORMALISATIONS) as Normalisation[]).map((k): [string, string] => [k, NORMALISATIONS[k]]);
        const normalisation = pick("normalisation of power (n)", "normalisation", kinds);
        normalisation.disabled = shownScale() === "ratio";
        const children: HTMLElement[] = [
            normalisation,
            pick("colour map (c)", "palette", PALETTES.map((p): [string, string] => [p, p])),
            toggle("auto", "level range automatic (a)", "automatic"),
        ];
        const [low, high] = RANGES[shownScale()];
        if (!settings.automatic) children.push(level("lowest level, dB", low), level("highest level, dB", high));
        children.push(toggle("marks", "detections drawn (d)", "marks"), toggle("tracks", "tracks drawn (l)", "tracks"));
        return element("span", { class: "group" }, children);
    }

    private others(): HTMLElement {
        return element("span", { class: "group" }, [button("?", "keys and pointer (?)", toggleHelp)]);
    }
}

function pick<K extends keyof Settings>(title: string, key: K, values: [string, string][]): HTMLSelectElement {
    return choice(title, values, String(settings[key]), (value) => choose({ [key]: value } as Partial<Settings>));
}

function toggle(text: string, title: string, key: "automatic" | "marks" | "tracks"): HTMLElement {
    const made = button(text, title, () => choose({ [key]: !settings[key] }));
    made.setAttribute("aria-pressed", String(settings[key]));
    return made;
}

function level(title: string, key: (typeof RANGES)[Scale][number]): HTMLElement {
    const made = element("input", { type: "number", step: "1", title, "aria-label": title });
    made.value = String(settings[key]);
    made.onchange = () => {
        if (Number.isFinite(made.valueAsNumber)) choose({ [key]: made.valueAsNumber });
    };
    return made;
}
