// SPDX-License-Identifier: GPL-3.0-or-later
import type { Detection } from "../../shared/protocol.js";
import type { Sight } from "../sight.js";
import type { Store } from "../store.js";

/** What the views share. */
export interface Context {
    store: Store;
    sight: Sight;
    /** The lofargram's direction: anew, from the history's beginning, or from here on. */
    look(angle: number, anew: boolean): void;
    /** Where no direction was chosen, the strongest contact's. */
    lookSomewhere(): void;
    follow(contact: number | null): void;
    /** The followed contact as it was last seen. */
    followed(): Detection | null;
}

/** One page of the dashboard. draw is called for each frame while it is shown, and decides what has changed. */
export interface View {
    readonly name: string;
    readonly title: string;
    readonly root: HTMLElement;
    /** Drawn with each row; others a few times a second. */
    readonly scrolls?: true;
    /** Topics to subscribe to while it is shown. */
    wants(): string[];
    draw(now_ms: number): void;
    /** Another choice was made, or another daemon chosen. */
    refresh?(): void;
}
