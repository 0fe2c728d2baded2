// SPDX-License-Identifier: GPL-3.0-or-later
// Converts the angles that an array measures to bearings and back, as docs/reading.md defines them.
import type { Detection, Header } from "../shared/protocol.js";

export type Bearings = Pick<
    Header,
    "bearing_kind" | "heading_deg" | "axis_az_deg" | "axis_depression_deg" | "ambiguous"
> &
    Partial<Pick<Header, "bearing_reference">>;

const RAD = Math.PI / 180;

export function turn(deg: number): number {
    const rest = deg % 360;
    return rest < 0 ? rest + 360 : rest;
}

/** The difference a - b of two bearings, in -180 .. 180. */
export function difference(a: number, b: number): number {
    return turn(a - b + 180) - 180;
}

export function isCone(b: Bearings): boolean {
    return b.bearing_kind === "cone";
}

/** The axis holds true bearings (output.bearing_reference: true). */
export function isTrue(b: Bearings): boolean {
    return b.bearing_reference === "true";
}

/** True bearings exist: the heading is known, and so is the azimuth of a line's axis. */
export function hasTrue(b: Bearings): boolean {
    if (isTrue(b)) return true;
    return b.heading_deg !== null && (!isCone(b) || b.axis_az_deg !== null);
}

/**
 * The bearings of an angle from the array's axis, for a source in the horizontal plane: one, or for a line two, right
 * and left of its axis; none if its cone does not meet that plane. Without a heading they are in the array frame.
 */
export function bearingsOf(b: Bearings, angle_deg: number): number[] {
    const heading = b.heading_deg ?? 0;
    if (isTrue(b)) return [turn(angle_deg)];
    if (!isCone(b)) return [turn(heading + angle_deg)];
    if (b.axis_az_deg === null) return [];
    const cosine = Math.cos(angle_deg * RAD) / Math.cos((b.axis_depression_deg ?? 0) * RAD);
    if (Math.abs(cosine) > 1) return [];
    const side = Math.acos(cosine) / RAD;
    return [turn(heading + b.axis_az_deg + side), turn(heading + b.axis_az_deg - side)];
}

/** The header's bearings in the array frame, if its axis was turned to true bearings. */
export function inArrayFrame(b: Bearings): Bearings {
    return { ...b, bearing_reference: "array", bearing_kind: b.ambiguous ? "cone" : "azimuth" };
}

export type Placed = Pick<Detection, "az_deg" | "bearing_deg" | "mirror_deg" | "side">;

/** True if a turn has shown on which side of a line the contact is. */
export function isSided({ side }: Pick<Detection, "side">): boolean {
    return side === "port" || side === "starboard";
}

/** Short, for tables and names. */
export function sideText(side: Detection["side"]): string {
    return side ? { unknown: "?", port: "port", starboard: "stbd" }[side] : "–";
}

/** The true bearings of a detection: that of its side, or both while the side is unknown. */
export function sidesOf(b: Bearings, detection: Placed): number[] {
    const { bearing_deg, mirror_deg, side, az_deg } = detection;
    const known = isTrue(b) ? [bearing_deg, mirror_deg].filter((deg) => deg !== null) : bearingsOf(b, az_deg);
    if (!isSided(detection) || known.length < 2) return known;
    return isTrue(b) || side === "starboard" ? [known[0]] : [known[1]];
}

/** The angle from the array's axis of a source at a bearing in the horizontal plane. */
export function angleOf(b: Bearings, bearing_deg: number): number {
    if (isTrue(b)) return turn(bearing_deg);
    const relative = turn(bearing_deg - (b.heading_deg ?? 0));
    if (!isCone(b)) return relative;
    const side = (relative - (b.axis_az_deg ?? 0)) * RAD;
    const cosine = Math.cos(side) * Math.cos((b.axis_depression_deg ?? 0) * RAD);
    return Math.acos(Math.max(-1, Math.min(1, cosine))) / RAD;
}

/** Title of an azimuth axis. */
export function angleTitle(b: Bearings): string {
    if (isTrue(b)) return "true bearing, deg";
    return isCone(b) ? "angle from the array's axis, deg" : "azimuth in the array frame, deg";
}

export function formatBearing(deg: number | null, decimals = 1): string {
    if (deg === null) return "–";
    const text = turn(deg).toFixed(decimals);
    return (Number(text) >= 360 ? (0).toFixed(decimals) : text).padStart(decimals > 0 ? 4 + decimals : 3, "0");
}
