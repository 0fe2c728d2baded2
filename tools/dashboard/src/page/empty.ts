// SPDX-License-Identifier: GPL-3.0-or-later
// The text shown in place of a picture without data: what is missing, and what to do about it.
import { element, setText } from "./dom.js";
import { statusOf } from "./status.js";
import type { Store } from "./store.js";

/** needs: what else must be set in the daemon for this topic. since: when its rows begin, after a comma. */
export function waitingText(store: Store, topic: string, needs = "", since = ""): string {
    const source = store.sources[store.selected];
    if (!source) return "Waiting for the bridge: is sonar-dashboard running?";
    const status = statusOf(store);
    if (!status) {
        const why = source.waits ? `: it ${source.waits}` : "";
        const curve = source.waits ? "" : " If it uses CURVE, sonar-dashboard needs --key.";
        return `Nothing is received from ${source.endpoint}${why}. Is sonard running, and is this its output.endpoint?${curve}`;
    }
    if (status.frames?.received === 0) return "The daemon has received no samples. Do digitisers send to its ingest.endpoints?";
    return `Waiting for ${topic}${since}. The daemon publishes it if it is in output.topics${needs ? ` and ${needs}` : ""}.`;
}

/** A text in the middle of a field, hidden while it is empty. */
export class Empty {
    readonly root = element("p", { class: "empty" });

    constructor() {
        this.root.hidden = true;
    }

    say(text: string): void {
        setText(this.root, text);
        this.root.hidden = text === "";
    }
}
