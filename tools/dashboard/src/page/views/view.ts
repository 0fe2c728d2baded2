// SPDX-License-Identifier: GPL-3.0-or-later
import type { Placed } from "../bearing.js";
import type { Sight } from "../sight.js";
import type { Store } from "../store.js";

/** What the views share. */
export interface Context {
    store: Store;
    sight: Sight;
    /** Sets the lofargram's direction, from the history's beginning (`from_start`) or from now on. */
    look(angle: number, from_start: boolean): void;
    /** Chooses the strongest contact's direction if none was chosen. */
    lookSomewhere(): void;
    follow(contact: number | null): void;
    followTrack(number: number | null): void;
    /** The followed contact or track as last seen. */
    followed(): Placed | null;
}

/** One page of the dashboard. draw is called for each frame while the page is shown, and decides what has changed. */
export interface View {
    readonly name: string;
    readonly title: string;
    readonly root: HTMLElement;
    /** Drawn with each row; other views are drawn a few times a second. */
    readonly scrolls?: true;
    /** Topics to subscribe to while it is shown. */
    wants(): string[];
    draw(now_ms: number): void;
    /** Called after another choice, or another daemon. */
    refresh?(): void;
}
