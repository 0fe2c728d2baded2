// SPDX-License-Identifier: GPL-3.0-or-later
// Detections of successive windows that belong together: a contact has a first sighting and can be followed.
import type { Detection } from "../shared/protocol.js";
import { difference } from "./bearing.js";

export interface Contact {
    id: number;
    now: Detection;
    first_ms: number;
    last_ms: number; // times of windows
}

const GATE_DEG = 0.3; // beside its own width that a contact may move between two sightings
const WIDEST_DEG = 4;
const FORGOTTEN_MS = 20_000;
const MOST = 200;

export class Contacts {
    list: Contact[] = [];
    private count = 0;

    clear(): void {
        this.list = [];
    }

    /** Takes the detections of the window at utc_ms: the nearest pairs of old and new go together first. */
    update(detections: readonly Detection[], utc_ms: number): void {
        this.list = this.list.filter((c) => utc_ms - c.last_ms < FORGOTTEN_MS && c.first_ms <= utc_ms);
        const pairs = this.list.flatMap((contact) =>
            detections.flatMap((detection) => {
                const apart = distance(contact, detection);
                return apart === null ? [] : [{ contact, detection, apart }];
            }),
        );
        pairs.sort((a, b) => a.apart - b.apart);
        const taken = new Set<Contact | Detection>();
        for (const { contact, detection } of pairs) {
            if (taken.has(contact) || taken.has(detection)) continue;
            taken.add(contact).add(detection);
            contact.now = detection;
            contact.last_ms = utc_ms;
        }
        for (const detection of detections) {
            if (taken.has(detection) || this.list.length >= MOST) continue;
            this.list.push({ id: ++this.count, now: detection, first_ms: utc_ms, last_ms: utc_ms });
        }
    }
}

/** Degrees between a contact and a detection that may be the same, or null. */
function distance(contact: Contact, detection: Detection): number | null {
    if (contact.now.source !== detection.source) return null;
    const apart = Math.abs(difference(contact.now.az_deg, detection.az_deg));
    const width = Math.max(contact.now.width_deg || 0, detection.width_deg || 0);
    return apart <= Math.min(WIDEST_DEG, width + GATE_DEG) ? apart : null;
}
