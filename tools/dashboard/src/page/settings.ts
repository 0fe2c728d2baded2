// SPDX-License-Identifier: GPL-3.0-or-later
// The user's choices, stored by the browser.
import type { Frame } from "./columns.js";
import type { Kind } from "./kinds.js";
import type { Normalisation } from "./normalise.js";

export interface Settings {
    view: string;
    panels: "both" | "cbf" | "mvdr";
    kind: Kind; // of the records
    frame: Frame;
    normalisation: Normalisation;
    palette: string;
    automatic: boolean;
    low_db: number;
    high_db: number;
    ratio_low_db: number;
    ratio_high_db: number;
    span_s: number; // of the record's height
    marks: boolean;
    tracks: boolean; // drawn on the record
    music: boolean; // show its curve with those of CBF and MVDR
    surface: string; // of the lofargram
    near: string; // topic of the near field
    beam: string; // the one that is heard, by its name
    daemon: string; // its endpoint, because the order may change
}

const DEFAULTS: Settings = {
    view: "record",
    panels: "both",
    kind: "power",
    frame: "array",
    normalisation: "none",
    palette: "viridis",
    automatic: true,
    low_db: 60,
    high_db: 90,
    ratio_low_db: 0,
    ratio_high_db: 15,
    span_s: 120,
    marks: true,
    tracks: true,
    music: true,
    surface: "cbf.lofar",
    near: "cbf.nearfield",
    beam: "",
    daemon: "",
};
const KEY = "sonard-dashboard";

function load(): Settings {
    const settings = { ...DEFAULTS };
    try {
        const kept = JSON.parse(localStorage.getItem(KEY) ?? "{}") as Record<string, unknown>;
        for (const name of Object.keys(DEFAULTS) as (keyof Settings)[])
            if (typeof kept[name] === typeof DEFAULTS[name]) Object.assign(settings, { [name]: kept[name] });
    } catch {
        // without storage the choices last as long as the page
    }
    return settings;
}

export const settings = load();

/** The settings of the colours' range by hand: powers and ratios have one each, because neither is of use for the
 * other. */
export const RANGES = { power: ["low_db", "high_db"], ratio: ["ratio_low_db", "ratio_high_db"] } as const;
export type Scale = keyof typeof RANGES;

export function recordScale(): Scale {
    return settings.kind === "normalised" || settings.kind === "peaks" ? "ratio" : "power";
}

/** That of the chosen view. */
export function shownScale(): Scale {
    return settings.view === "lofar" || settings.view === "nearfield" ? "power" : recordScale();
}

/** Incremented with every choice. */
export let choices = 0;

export function choose(change: Partial<Settings>): void {
    Object.assign(settings, change);
    choices++;
    try {
        localStorage.setItem(KEY, JSON.stringify(settings));
    } catch {
        // see above
    }
}
