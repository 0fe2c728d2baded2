// SPDX-License-Identifier: GPL-3.0-or-later
// What the records show of each beamformer: its power, or one of the daemon's ratios over what is around a direction.

export type Beamformer = "cbf" | "mvdr";
export type Kind = "power" | "normalised" | "peaks";

/** For each kind the text of its choice and the topics. MVDR has no peaks of each frequency; its normalised spectrum
 * stands beside those of the CBF, because both records have one range of levels. */
export const KINDS: { [kind in Kind]: { text: string; topics: { [of in Beamformer]: string } } } = {
    power: { text: "power", topics: { cbf: "cbf.azimuth", mvdr: "mvdr.azimuth" } },
    normalised: { text: "over the noise", topics: { cbf: "cbf.normalised", mvdr: "mvdr.normalised" } },
    peaks: { text: "peaks", topics: { cbf: "cbf.sped", mvdr: "mvdr.normalised" } },
};

/** What the ratio of each topic is. */
const RATIOS: { [topic: string]: string } = {
    "cbf.normalised": " over the noise around",
    "mvdr.normalised": " over the noise around",
    "cbf.sped": ", peaks of each frequency",
};
export const RATIO_TOPICS = Object.keys(RATIOS);

/** A kind that this page does not know, as the browser may have stored, is power. */
export function topicOf(beamformer: Beamformer, kind: Kind): string {
    return (KINDS[kind] ?? KINDS.power).topics[beamformer];
}

/** The text after "dB" at the head of a record; empty for a power. */
export function ratioText(topic: string): string {
    return RATIOS[topic] ?? "";
}

/** A ratio has no reference, and is already over a background. */
export function isRatio(unit: string | null): boolean {
    return unit === "1";
}
