// SPDX-License-Identifier: GPL-3.0-or-later
// Detections of successive windows that belong together: a contact has a first sighting and can be followed.
import type { Detection } from "../shared/protocol.js";
import { angleOf, bearingsOf, difference, hasTrue, inArrayFrame, isTrue, type Bearings } from "./bearing.js";

export interface Contact {
    id: number;
    now: Detection;
    by: Bearings; // the bearings' reference for its angle
    first_ms: number;
    last_ms: number; // times of windows
}

const GATE_DEG = 0.3; // distance that a contact may move between two sightings, in addition to its own width
const UNRESOLVED_DEG = 2; // width of a contact that is not resolved from its neighbours
const WIDEST_DEG = 4;
const FORGOTTEN_MS = 20_000;
const MOST = 200;

export class Contacts {
    list: Contact[] = [];
    private count = 0;

    clear(): void {
        this.list = [];
    }

    /** Takes the detections of the window at utc_ms. The nearest pairs of old and new contacts are matched first. */
    update(rows: readonly Detection[], utc_ms: number, by: Bearings): void {
        const detections = fused(rows);
        this.list = this.list.filter((c) => utc_ms - c.last_ms < FORGOTTEN_MS && c.first_ms <= utc_ms);
        const pairs = this.list.flatMap((contact) =>
            detections.flatMap((detection) => {
                const apart = distance(contact, detection, by);
                return apart === null ? [] : [{ contact, detection, apart }];
            }),
        );
        pairs.sort((a, b) => a.apart - b.apart);
        const taken = new Set<Contact | Detection>();
        for (const { contact, detection } of pairs) {
            if (taken.has(contact) || taken.has(detection)) continue;
            taken.add(contact).add(detection);
            Object.assign(contact, { now: detection, by, last_ms: utc_ms });
        }
        for (const detection of detections) {
            if (taken.has(detection) || this.list.length >= MOST) continue;
            this.list.push({ id: ++this.count, now: detection, by, first_ms: utc_ms, last_ms: utc_ms });
        }
    }
}

/** The spectra in which a contact was found. */
export function sourcesOf(detection: Detection): string[] {
    return detection.rests_on ?? [detection.source];
}

/** One row for each contact of a window: the first of its rows, with the range of another if the first has none. An
 * older daemon does not number contacts. */
export function fused(rows: readonly Detection[]): Detection[] {
    const contacts = new Map<number | Detection, Detection>();
    for (const row of rows) {
        const first = contacts.get(row.contact ?? row);
        if (!first) contacts.set(row.contact ?? row, { ...row });
        else if (first.range_m === null) Object.assign(first, { range_m: row.range_m, range_unresolved: row.range_unresolved });
        if (first && row.possible_image) first.possible_image = true;
    }
    return [...contacts.values()];
}

/** True if its bearings are true; otherwise they are in the array frame. */
export function isNorthed(contact: Contact): boolean {
    return isTrue(contact.by);
}

/** Degrees between a contact and a detection that may be the same, or null. */
function distance(contact: Contact, detection: Detection, by: Bearings): number | null {
    if (!sourcesOf(contact.now).some((source) => sourcesOf(detection).includes(source))) return null;
    const apart = Math.min(...expected(contact, by).map((angle) => Math.abs(difference(angle, detection.az_deg))));
    const width = Math.max(contact.now.width_deg ?? UNRESOLVED_DEG, detection.width_deg ?? UNRESOLVED_DEG);
    return apart <= Math.min(WIDEST_DEG, width + GATE_DEG) ? apart : null;
}

/** Angles at which a contact is expected: the last one, and those of its true bearings after the array has turned. */
function expected(contact: Contact, by: Bearings): number[] {
    const { az_deg } = contact.now;
    const [then, now] = [inArrayFrame(contact.by), inArrayFrame(by)];
    if (!hasTrue(then) || !hasTrue(now) || then.heading_deg === now.heading_deg) return [az_deg];
    return [az_deg, ...bearingsOf(then, az_deg).map((bearing) => angleOf(now, bearing))];
}
