// SPDX-License-Identifier: GPL-3.0-or-later
// The page's calculations, without a browser.
import assert from "node:assert/strict";
import { test } from "node:test";
import { lifeOf } from "../../src/page/alarm.js";
import { angleOf, bearingsOf, difference, formatBearing, hasTrue, sidesOf, turn, type Bearings } from "../../src/page/bearing.js";
import { FAULT_COLOURS, MASKED, shades, WELL } from "../../src/page/colour.js";
import { columnsOf, placesOf, wholeExtent } from "../../src/page/columns.js";
import { Contacts, fused, sourcesOf } from "../../src/page/contacts.js";
import { fixed, latency, levelText, ticks, timeTicks } from "../../src/page/format.js";
import { KINDS, RATIO_TOPICS, ratioText, topicOf, type Kind } from "../../src/page/kinds.js";
import { headingText, withHeading } from "../../src/page/heading.js";
import { fitArray, placeIn } from "../../src/page/arrayfit.js";
import { levelsOf, modesShown } from "../../src/page/modes.js";
import { MUSIC, musicLimits, musicText } from "../../src/page/music.js";
import { describe } from "../../src/page/panel.js";
import { choose } from "../../src/page/settings.js";
import { elementStates, FAULTS, Losses, type Status } from "../../src/page/status.js";
import { automaticLevels } from "../../src/page/levels.js";
import { background } from "../../src/page/normalise.js";
import { PALETTES } from "../../src/page/colour.js";
import { isCurrent, makeAxis, Record, stretchOf, type Row } from "../../src/page/record.js";
import { Playout, Sound } from "../../src/page/sound.js";
import { Store } from "../../src/page/store.js";
import { isInked, NO_TRACES, placedOf, runsOf, Tracks, tracesOf } from "../../src/page/tracks.js";
import { valuesOf } from "../../src/page/views/tracks.js";
import type { Detection, Track, TrackBearing } from "../../src/shared/protocol.js";
import type { RowHeader, ToPage } from "../../src/shared/frames.js";

const LINE: Bearings = { bearing_kind: "cone", heading_deg: 30, axis_az_deg: 10, axis_depression_deg: 0, ambiguous: true };
const CIRCLE: Bearings = { bearing_kind: "azimuth", heading_deg: 350, axis_az_deg: null, axis_depression_deg: null, ambiguous: false };

test("bearings and angles are each other's inverse, also of a tilted line", () => {
    assert.deepEqual(bearingsOf(LINE, 70).map(Math.round), [110, 330]);
    assert.deepEqual(bearingsOf(CIRCLE, 25), [15]);
    // docs/reading.md: tilted by 40 degrees, 67.5 is what a source 60 degrees off the axis reads.
    const tilted = { ...LINE, axis_depression_deg: 40 };
    assert.ok(Math.abs(angleOf(tilted, 30 + 10 + 60) - 67.5) < 0.05);
    assert.deepEqual(bearingsOf(tilted, 10), [], "its cone does not meet the horizontal plane");
    for (let angle = 45; angle < 135; angle += 7)
        for (const bearing of bearingsOf(tilted, angle)) assert.ok(Math.abs(angleOf(tilted, bearing) - angle) < 1e-9);
    assert.deepEqual(bearingsOf({ ...LINE, axis_az_deg: null }, 70), []);
    assert.equal(difference(350, 10), -20);
    assert.equal(turn(-10), 350);
    assert.deepEqual([formatBearing(5.04), formatBearing(359.97), formatBearing(null)], ["005.0", "000.0", "–"]);
});

test("a contact whose side is known stands on it alone", () => {
    // 70 degrees off an axis that points to 40: 110 to starboard, 330 to port.
    const contact = (side: Detection["side"], bearing_deg: number, mirror_deg: number) => detection(70, { side, bearing_deg, mirror_deg });
    const north: Bearings = { ...LINE, bearing_kind: "azimuth", bearing_reference: "true" };
    for (const b of [LINE, north]) {
        assert.deepEqual(sidesOf(b, contact("unknown", 110, 330)).map(Math.round), [110, 330]);
        assert.deepEqual(sidesOf(b, contact("starboard", 110, 330)).map(Math.round), [110]);
        assert.deepEqual(sidesOf(b, contact("port", 330, 110)).map(Math.round), [330]);
    }
    assert.deepEqual(sidesOf(CIRCLE, contact(null, 60, null as never)), [60]);
    assert.deepEqual(placesOf(LINE, "array", contact("port", 330, 110)), [70], "an angle from the axis has no side");
    assert.deepEqual(placesOf(LINE, "true", contact("port", 330, 110)).map(Math.round), [330]);
});

test("eigenvalues are levels by mode; zeros are none, and rounding does not stretch the scale", () => {
    // [bin][mode]: 2 bins, 3 modes
    const { levels, frequencies, strongest, limits } = levelsOf(Float32Array.of(100, 10, 0, 1000, 10, 1e-12), { name: "frequency", unit: "Hz", start: 600, step: 10 }, [2, 3]);
    assert.deepEqual(levels.map((mode) => mode.map((db) => db && Math.round(db))), [[20, 30], [10, 10], [null, -120]]);
    assert.deepEqual([...frequencies], [600, 610]);
    assert.equal(strongest, 1);
    assert.deepEqual(limits, [-50, 35]);
    assert.deepEqual(modesShown(3), [0, 1, 2]);
    const many = modesShown(512);
    assert.deepEqual([many.length, many[0], many[31], many[63]], [64, 0, 31, 511]);
    assert.ok(many.every((mode, i) => i === 0 || mode > many[i - 1]));
});

test("an axis of true bearings is what it says, whatever the heading", () => {
    const north: Bearings = { ...LINE, bearing_kind: "azimuth", bearing_reference: "true" };
    assert.ok(hasTrue(north) && hasTrue({ ...north, heading_deg: null }));
    assert.deepEqual(bearingsOf(north, 70), [70]);
    assert.equal(angleOf(north, 70), 70);
    const axis = makeAxis({ name: "azimuth", unit: "deg", start: 0, step: 0.5 }, 720);
    assert.ok(axis.circular);
    const { first, last } = columnsOf(axis, north, "true", { low: 0, high: 360 }, 360);
    for (let x = 0; x < 360; x++) assert.ok(first[x] <= 2 * x + 1 && last[x] >= 2 * x, `pixel ${x}`);
    // Beside rows of the array's frame, as after the heading was lost: x degrees off an axis that points to 40.
    const array = columnsOf(axis, north, "array", { low: 0, high: 180 }, 180);
    for (let x = 0; x < 180; x++) {
        const bearing = turn(40 + x + 0.5);
        assert.ok(Math.abs(difference(array.first[x] / 2, bearing)) <= 0.75 && Math.abs(difference((array.last[x] % 720) / 2, bearing)) <= 0.75,
            `${x} degrees off the axis: ${array.first[x] / 2}..${array.last[x] / 2}`);
    }
});

test("a pixel shows every direction in it, and none is left out", () => {
    const values = Array.from({ length: 720 }, (_, i) => i / 2);
    const axis = makeAxis({ name: "azimuth", unit: "deg", values }, 720);
    assert.ok(axis.circular);
    const shown = wholeExtent(axis, "array");
    const columns = columnsOf(axis, CIRCLE, "array", shown, 100);
    const seen = new Set<number>();
    for (let x = 0; x < 100; x++) for (let c = columns.first[x]; c <= columns.last[x]; c++) seen.add(c % 720);
    assert.equal(seen.size, 720);
    for (let heading_deg = 0; heading_deg < 360; heading_deg += 1.7) {
        const offset = columnsOf(axis, { ...CIRCLE, heading_deg }, "true", { low: 0, high: 360 }, 50);
        const turns = new Set<number>();
        for (let x = 0; x < 50; x++) for (let c = offset.first[x]; c <= offset.last[x]; c++) turns.add(c % 720);
        assert.equal(turns.size, 720, `heading ${heading_deg}: also where a pixel lies across the seam`);
    }
    const turned = columnsOf(axis, CIRCLE, "true", { low: 0, high: 360 }, 360);
    assert.ok(Math.abs(values[turned.first[100]] - turn(100.5 - 350)) <= 0.5);
    for (let x = 0; x < 360; x++) assert.ok(turned.first[x] >= 0, `pixel ${x} across the seam`);
});

test("a line's true bearings show each direction right and left of the axis", () => {
    const axis = makeAxis({ name: "azimuth", unit: "deg", start: 0, step: 1 }, 181);
    const { first, last } = columnsOf(axis, LINE, "true", { low: 0, high: 360 }, 360);
    for (const bearing of bearingsOf(LINE, 60)) {
        const x = Math.floor(bearing);
        assert.ok(first[x] <= 60 && 60 <= last[x] + 1, `${x}: ${first[x]}..${last[x]}`);
    }
});

function row(sample: number, window: number, epoch = 1): Row {
    const header = { run: "r", epoch, window, sample_index: sample, fs_hz: 1000, window_length: 200, config_version: "1" } as RowHeader;
    const axis = makeAxis({ name: "azimuth", unit: "deg", start: 0, step: 1 }, 3);
    return { utc_ms: sample, span_ms: 200, header, axis, data: Float32Array.of(1, 2, 3), arrived_ms: 0, az_deg: null, marks: [], traces: NO_TRACES };
}

test("a hole between rows is missing, and the rows are not stretched over it", () => {
    const record = new Record(1e6);
    for (const [sample, window] of [[0, 0], [100, 1], [200, 2], [700, 3], [800, 4], [1000, 6]]) record.push(row(sample, window));
    const { rows } = record;
    assert.deepEqual(rows.map((r) => r.span_ms), Array(6).fill(100));
    assert.equal(stretchOf(rows, -50, 0, 1100), null, "before the first");
    assert.deepEqual(stretchOf(rows, 100, 110, 1100), { first: 1, last: 1, missing: "nothing" });
    assert.deepEqual(stretchOf(rows, 150, 160, 1100), { first: 1, last: 1, missing: "nothing" });
    assert.equal(stretchOf(rows, 320, 330, 1100)!.missing, "all", "the index of the window alone would not tell");
    assert.equal(stretchOf(rows, 920, 930, 1100)!.missing, "all");
    assert.deepEqual(stretchOf(rows, 200, 800, 1100), { first: 2, last: 3, missing: "some" });
    assert.deepEqual(stretchOf(rows, 0, 200, 1100), { first: 0, last: 1, missing: "nothing" });
    assert.equal(stretchOf(rows, 1200, 1210, 1100), null, "the future");
    assert.equal(stretchOf(rows, 1200, 1210, 5000)!.missing, "all", "what is overdue");
});

test("a first pair of rows that lies across a gap is corrected by the next", () => {
    const record = new Record(1e6);
    for (const [sample, window] of [[0, 0], [900, 1], [1000, 2]]) record.push(row(sample, window));
    assert.equal(stretchOf(record.rows, 400, 410, 1100)!.missing, "all");
});

test("rows that come again take the place of those that were there", () => {
    const record = new Record(350);
    for (let i = 0; i < 8; i++) record.push(row(100 * i, i));
    assert.deepEqual(record.rows.map((r) => r.utc_ms), [400, 500, 600, 700]);
    record.push(row(500, 0, 2));
    assert.deepEqual(record.rows.map((r) => r.utc_ms), [400, 500]);
});

test("rows of another array, run or axis begin a record of their own; a heading that comes and goes does not", () => {
    const record = new Record(1e6);
    const push = (sample: number, change: object, count = 3) => {
        const made = row(sample, sample / 100);
        const axis = makeAxis({ name: "azimuth", unit: "deg", start: 0, step: 1 }, count); // another object each time, as after the bridge's restart
        record.push({ ...made, axis, data: new Float32Array(count), header: { ...made.header, array: "bow", bearing_reference: "array", ...change } });
        return [record.rows.length, record.restart?.why ?? null];
    };
    assert.deepEqual(push(0, {}), [1, null]);
    assert.deepEqual(push(100, {}), [2, null], "an axis of the same values");
    assert.deepEqual(push(200, { bearing_reference: "true" }, 5), [3, null]);
    assert.deepEqual(push(300, {}), [4, null]);
    assert.deepEqual(push(400, { config_version: "2", epoch: 2 }), [5, null]);
    assert.deepEqual(push(500, { array: "stern" }), [1, "array"]);
    assert.deepEqual(push(600, { array: "stern", run: "s" }), [1, "run"]);
    assert.deepEqual(push(700, { array: "stern", run: "s" }, 4), [1, "axis"]);
    assert.deepEqual(record.restart, { why: "axis", utc_ms: 700 });
    record.clear();
    assert.equal(record.restart, null);
});

test("contacts and the heading of another run are not taken over", () => {
    const store = storeWithAxis();
    const detections = [detection(60)];
    for (const [run, sample] of [["a", 100], ["a", 200], ["b", 300]] as const) {
        store.take(frameOf("detections", sample, { run, detections }), new Float32Array(0));
        store.take(frameOf("cbf.azimuth", sample, { run, heading_deg: run === "a" ? 30 : null }), Float32Array.of(1, 2, 3));
        if (run === "a") assert.deepEqual([store.contacts.list[0].first_ms, store.heading?.deg], [100, 30]);
        store.followed ??= store.contacts.list[0].id;
    }
    assert.deepEqual(store.contacts.list.map((c) => c.first_ms), [300]);
    assert.deepEqual([store.heading, store.cbf.rows.length], [null, 1]);
    assert.equal(store.followed, store.contacts.list[0].id, "what was followed before is gone");
});

test("data are as old as the end of their window by the daemon's clock, however fresh they came", () => {
    const store = storeWithAxis();
    const now_ms = performance.now();
    const made_ms = 1.7e12; // by the daemon's clock; this page's clock does not matter
    assert.equal(store.dataAge_ms(now_ms), null);
    store.take(frameOf("cbf.azimuth", made_ms - 29_200), Float32Array.of(1, 2, 3)); // windows of 0.2 s
    assert.ok(store.dataAge_ms(now_ms)! < 1000, "before the first status: since they came");
    store.take(frameOf("status", made_ms), new Float32Array(0));
    const age = (at_ms: number) => Math.round(store.dataAge_ms(at_ms)! / 1000);
    assert.equal(age(now_ms), 29);
    assert.equal(age(now_ms + 5000), 34);
    store.take(frameOf("cbf.azimuth", made_ms, { utc_ns: null }), Float32Array.of(1, 2, 3));
    assert.equal(age(performance.now()), 0, "no UTC is known");
    store.take(frameOf("cbf.azimuth", made_ms + 60_000), Float32Array.of(1, 2, 3));
    assert.equal(age(performance.now()), 0, "a digitiser whose clock is ahead");
});

test("losses are told with their time, and are recent for a minute", () => {
    const losses = new Losses();
    const status = (failed: number, run = "r") => ({ run, windows: { dropped: {}, failed } }) as unknown as Status;
    losses.take(status(0), 0);
    assert.deepEqual([losses.when, losses.recent], ["", false]);
    losses.take(status(2), 3_600_000);
    assert.deepEqual([losses.when, losses.recent], ["last 01:00:00Z", true]);
    losses.take(status(2), 3_659_000);
    assert.ok(losses.recent);
    losses.take(status(2), 3_661_000);
    assert.deepEqual([losses.when, losses.recent], ["last 01:00:00Z", false]);
    losses.take(status(5, "another"), 7_200_000);
    assert.deepEqual([losses.when, losses.recent], ["before 02:00:00Z", false], "of a run that is not known from its beginning");
});

test("a power of zero has no level", () => {
    assert.deepEqual([levelText(0, "uPa^2"), levelText(100, "uPa^2")], ["no power", "20.00 dB re 1 µPa²"]);
    const silent = { ...row(0, 0), data: new Float32Array(3), header: { ...row(0, 0).header, unit: "uPa^2", bearing_kind: "cone", heading_deg: null } } as Row;
    const reading = { utc_ms: 0, angle: 1, column: 1, power: 0, over_db: 0, rows: [silent], missing: "nothing" } as const;
    assert.match(describe({ ...reading, rows: [silent] }, true), /^1\.00 deg {2}· {2}no power {2}·/);
});

test("a ratio is dB without a reference, and is not normalised again", () => {
    assert.deepEqual([levelText(0, "1"), levelText(100, "1")], ["zero", "20.00 dB"]);
    const read = (topic: string, unit: string, power: number) => {
        const made = row(0, 0);
        const rows = [{ ...made, header: { ...made.header, topic, unit, bearing_kind: "cone", heading_deg: null } as RowHeader }];
        return describe({ utc_ms: 0, angle: 1, column: 1, power, over_db: 3, rows, missing: "nothing" }, true).split("  ·  ").slice(1);
    };
    choose({ normalisation: "s2pm" });
    assert.deepEqual(read("cbf.normalised", "1", 10), ["10.00 dB", "00:00:00.0Z", "window 0"]);
    assert.deepEqual(read("cbf.sped", "1", 0), ["zero", "00:00:00.0Z", "window 0"]);
    assert.deepEqual(read("cbf.azimuth", "uPa^2", 10), ["10.00 dB re 1 µPa²", "00:00:00.0Z", "3.0 dB over background", "window 0"]);
    choose({ normalisation: "none" });
    assert.deepEqual(["cbf.azimuth", "mvdr.normalised", "cbf.sped"].map(ratioText), ["", " over the noise around", ", peaks of each frequency"]);
});

test("each kind has its topics, and what a page does not know is power", () => {
    const topics = (kind: string) => (["cbf", "mvdr"] as const).map((of) => topicOf(of, kind as Kind));
    assert.deepEqual(Object.keys(KINDS).map(topics),
        [["cbf.azimuth", "mvdr.azimuth"], ["cbf.normalised", "mvdr.normalised"], ["cbf.sped", "mvdr.normalised"]]);
    assert.deepEqual(topics("a kind of another version"), ["cbf.azimuth", "mvdr.azimuth"]);
    const shown = [...new Set(Object.keys(KINDS).flatMap(topics))].filter((topic) => !topic.endsWith(".azimuth"));
    assert.deepEqual(shown.sort(), [...RATIO_TOPICS].sort());
});

test("ratios have their window's detections and tracks, stay while the bridge connects again, and are not the newest spectrum", () => {
    const store = storeWithAxis();
    const send = (topic: string, sample: number, change: object = {}) =>
        store.take(frameOf(topic, sample, change), topic.includes(".") ? Float32Array.of(1, 2, 3) : new Float32Array(0));
    const marks = { detections: [detection(60, { source: "cbf" }), detection(61)], tracks: [track(4, 70, [110])] };
    for (const sample of [100, 200]) {
        const tell = () => ["detections", "tracks"].forEach((topic) => send(topic, sample, marks));
        if (sample === 100) tell();
        for (const topic of ["cbf.azimuth", "mvdr.azimuth", ...RATIO_TOPICS]) send(topic, sample);
        if (sample === 200) tell();
    }
    for (const topic of RATIO_TOPICS) {
        const { rows } = store.recordOf(topic)!;
        const places = topic.startsWith("cbf") ? [60] : [61];
        assert.deepEqual(rows.map((r) => [r.marks.map((d) => d.az_deg), runsOf(r.traces, null, "array", null).map((run) => run.to)]),
            [[places, [70]], [places, [70]]], topic);
    }
    send("cbf.normalised", 300);
    assert.equal(store.newest!.utc_ms, 200, "data are as old as the power");
    for (const topic of ["cbf.azimuth", "cbf.normalised"]) store.take({ type: "begin", source: 0, topic }, new Float32Array(0));
    send("cbf.normalised", 200);
    send("cbf.normalised", 400);
    assert.deepEqual(store.recordOf("cbf.normalised")!.rows.map((r) => r.utc_ms), [100, 200, 400]);
    store.take({ type: "hello", version: "", history_s: 1, sources: [] }, new Float32Array(0));
    assert.ok(store.spectra.every(({ keep_ms }) => keep_ms === 1000), "as long as the bridge keeps them");
    store.select(1);
    assert.ok(store.spectra.every(({ rows }) => rows.length === 0), "another daemon");
});

test("no two states of an element have nearly the same colour", () => {
    const colours = Object.entries({ ...FAULT_COLOURS, "in order": WELL, masked: MASKED });
    assert.deepEqual(Object.keys(FAULT_COLOURS), [...FAULTS]);
    colours.forEach(([name, colour], i) => {
        for (const [other, another] of colours.slice(i + 1)) {
            const apart = Math.hypot(...lab(colour).map((value, k) => value - lab(another)[k]));
            assert.ok(apart > 25, `${name} and ${other}: ${apart.toFixed(0)} in CIELAB`);
        }
    });
});

/** CIELAB of a colour of sRGB, white at D65. */
function lab(hex: string): number[] {
    const [r, g, b] = [1, 3, 5].map((i) => linear(parseInt(hex.slice(i, i + 2), 16)));
    const white = [0.95047, 1, 1.08883];
    const xyz = [0.4124 * r + 0.3576 * g + 0.1805 * b, 0.2126 * r + 0.7152 * g + 0.0722 * b, 0.0193 * r + 0.1192 * g + 0.9505 * b];
    const [x, y, z] = xyz.map((value, i) => (value / white[i] > 0.008856 ? Math.cbrt(value / white[i]) : (7.787 * value) / white[i] + 16 / 116));
    return [116 * y - 16, 500 * (x - y), 200 * (y - z)];
}

function storeWithAxis(): Store {
    const store = new Store();
    store.take({ type: "axes", id: 1, axes: [{ name: "azimuth", unit: "deg", start: 0, step: 1 }] }, new Float32Array(0));
    return store;
}

/** A row of a topic as the bridge sends it, at a time in ms. */
function frameOf(topic: string, ms: number, change: object = {}): ToPage {
    const header = { ...row(ms, ms).header, topic, utc_ns: 1e6 * ms, heading_deg: null, flags: [] as string[], ...change } as RowHeader;
    return { type: "row", source: 0, axes: 1, age_ms: 0, header };
}

test("the split-window mean follows the background and not a source", () => {
    for (const circular of [false, true]) {
        const power = Float32Array.from({ length: 360 }, (_, i) => 10 + 5 * Math.sin((2 * Math.PI * i) / 360));
        power[100] = power[101] = 5000;
        power[0] = 900;
        const below = background(power, "s2pm", circular);
        for (let i = 0; i < 360; i++) {
            const smooth = 10 + 5 * Math.sin((2 * Math.PI * i) / 360);
            assert.ok(Math.abs(10 * Math.log10(below[i] / smooth)) < 1.5, `${i}: ${below[i]} for ${smooth}`);
        }
    }
    assert.deepEqual([...background(Float32Array.of(1, 2, 6), "row", false)], [3, 3, 3]);
    assert.deepEqual([...background(Float32Array.of(1, 2, 6), "none", false)], [1, 1, 1]);
    assert.equal(background(Float32Array.of(7), "s2pm", false)[0], 7, "a single direction");
});

test("levels found automatically hold still while little changes", () => {
    const quiet = { ...row(0, 0), data: Float32Array.from({ length: 1000 }, (_, i) => (i === 500 ? 1e8 : 1e5 + i)) };
    const levels = automaticLevels(Array(20).fill(quiet), "none", null)!;
    assert.ok(levels.low_db <= 51 && levels.high_db >= levels.low_db + 12);
    const louder = { ...quiet, data: quiet.data.map((p) => 1.3 * p) };
    assert.equal(automaticLevels(Array(20).fill(louder), "none", levels), levels);
    assert.notEqual(automaticLevels(Array(20).fill({ ...quiet, data: quiet.data.map((p) => 10 * p) }), "none", levels), levels);
    assert.equal(automaticLevels([], "none", levels), levels);
});

test("every colour map grows lighter from its first colour to its last", () => {
    for (const palette of PALETTES) {
        const light = [...shades(palette)].map((p) => 0.2126 * linear(p & 255) + 0.7152 * linear((p >> 8) & 255) + 0.0722 * linear((p >> 16) & 255));
        for (let i = 1; i < light.length; i++) assert.ok(light[i] >= light[i - 1] - 1e-3, `${palette} at ${i}`);
        assert.ok(light[255] - light[0] > 0.5, palette);
    }
});

function linear(value: number): number {
    return (value / 255) ** 2.2;
}

function detection(az_deg: number, change: Partial<Detection> = {}): Detection {
    const rest = { bearing_deg: null, mirror_deg: null, level: 1, level_db: 0, snr_db: 10, range_m: null, range_unresolved: false };
    return { source: "mvdr", az_deg, width_deg: 0.3, ...rest, ...change };
}

test("contacts keep their number while they move, pass gaps, and two close ones stay two", () => {
    const contacts = new Contacts();
    for (let i = 0; i < 40; i++) {
        const both = [detection(70 + 0.02 * i), detection(70.7 + 0.02 * i)];
        contacts.update(i % 7 === 3 ? both.slice(0, 1) : both, 500 * i, CIRCLE);
    }
    assert.equal(contacts.list.length, 2);
    assert.deepEqual(contacts.list.map((c) => c.first_ms), [0, 0]);
    assert.deepEqual(contacts.list.map((c) => c.now.az_deg.toFixed(2)), ["70.78", "71.48"]);
    contacts.update([detection(70.8, { source: "cbf" })], 20_000, CIRCLE);
    assert.equal(contacts.list.length, 3, "another beamformer's contact is another");
    contacts.update([], 60_000, CIRCLE);
    assert.equal(contacts.list.length, 0);
    contacts.update([detection(359.9)], 61_000, CIRCLE);
    contacts.update([detection(0.1)], 61_500, CIRCLE);
    assert.equal(contacts.list.length, 1, "across north");
});

test("rows of one contact are one, with what each knows, and keep their number while one of them comes and goes", () => {
    const cbf = detection(70, { source: "cbf", contact: 0, rests_on: ["cbf", "mvdr"] });
    const mvdr = detection(70.4, { source: "mvdr", contact: 0, rests_on: ["cbf", "mvdr"], range_m: 800, possible_image: true });
    const other = detection(71, { source: "mvdr", contact: 1, rests_on: ["mvdr"] });
    const rows = [cbf, mvdr, other];
    assert.deepEqual(fused(rows).map((d) => [d.source, d.az_deg, d.range_m, d.possible_image ?? false, sourcesOf(d).join("+")]),
        [["cbf", 70, 800, true, "cbf+mvdr"], ["mvdr", 71, null, false, "mvdr"]]);
    assert.deepEqual([cbf.range_m, cbf.possible_image], [null, undefined], "the rows themselves stay as they came");
    assert.equal(fused([detection(70), detection(70)]).length, 2, "an older daemon numbers none");
    const contacts = new Contacts();
    const alone = { ...mvdr, az_deg: 70.1, rests_on: ["mvdr"] };
    for (let i = 0; i < 6; i++) contacts.update(i % 2 ? [alone] : [cbf, mvdr], 500 * i, CIRCLE);
    assert.deepEqual(contacts.list.map((c) => c.first_ms), [0]);
});

test("contacts keep their number while the array turns", () => {
    // Two ships that stay where they are, 100 and 160 degrees true; the line turns by 3 degrees between sightings.
    const contacts = new Contacts();
    for (let i = 0; i < 20; i++) {
        const by = { ...LINE, heading_deg: 30 + 3 * i };
        contacts.update([100, 160].map((bearing) => detection(angleOf(by, bearing))), 500 * i, by);
    }
    assert.deepEqual(contacts.list.map((c) => c.first_ms), [0, 0]);
    // Own noise stays at its angle, whatever the heading is; without a heading a turn is unknown.
    for (const turned of [3, null]) {
        contacts.clear();
        for (let i = 0; i < 5; i++) contacts.update([detection(50)], 500 * i, { ...LINE, heading_deg: turned && turned * i });
        assert.equal(contacts.list.length, 1);
    }
    // A peak whose width is not known wanders more.
    contacts.clear();
    for (let i = 0; i < 5; i++) contacts.update([detection(50 + 1.5 * (i % 2), { width_deg: null })], 500 * i, LINE);
    assert.equal(contacts.list.length, 1);
});

test("silence is told as what it is", () => {
    const signs = { now_ms: 10_000, connected: true, status_ms: 9500, data_ms: 9000, data_utc_ms: 0, began_ms: 0, waits: "" };
    assert.deepEqual(lifeOf(signs), { dead: false, text: "" });
    assert.match(lifeOf({ ...signs, status_ms: 7900 }).text, /^NO STATUS FROM THE DAEMON FOR 2.1 s\. Last data 1970-01-01 00:00:00Z$/);
    assert.equal(lifeOf({ ...signs, status_ms: 7900 }).dead, true);
    assert.match(lifeOf({ ...signs, status_ms: 7900, connected: false }).text, /^NO CONNECTION TO THE BRIDGE/);
    assert.deepEqual(lifeOf({ ...signs, data_ms: 6900 }).dead, false);
    assert.match(lifeOf({ ...signs, data_ms: 6900 }).text, /^DATA 3.1 s OLD/);
    assert.equal(lifeOf({ ...signs, status_ms: null, data_ms: null, data_utc_ms: null }).text, "NO STATUS FROM THE DAEMON. No data yet");
    const waits = "does not answer: nothing listens there";
    assert.equal(lifeOf({ ...signs, status_ms: null, data_ms: null, data_utc_ms: null, waits }).text,
        "NO STATUS FROM THE DAEMON: it does not answer: nothing listens there. No data yet");
    assert.match(lifeOf({ ...signs, status_ms: 7900, waits }).text, /^NO STATUS FROM THE DAEMON FOR 2.1 s: it does not answer: nothing listens there\. Last/);
    assert.doesNotMatch(lifeOf({ ...signs, status_ms: 7900, connected: false, waits }).text, /it does not answer/, "what the bridge said last is old");
    assert.deepEqual(lifeOf({ ...signs, waits }), { dead: false, text: "" });
    assert.equal(lifeOf({ ...signs, status_ms: null, began_ms: 9000 }).dead, false, "a page that has just been opened");
});

test("a heading that is no longer received is reported, with the last one", () => {
    const at = (utc_ms: number, flags: string[]) => ({ ...row(utc_ms, 0), header: { ...row(utc_ms, 0).header, heading_deg: null, flags } }) as Row;
    assert.equal(headingText(undefined, null), "");
    assert.equal(headingText(at(0, ["gap"]), null), "", "there was none, nor should there be");
    assert.equal(headingText(at(0, ["heading_stale"]), null), "NO HEADING YET. Bearings are relative to the array");
    const last = { deg: 213, utc_ms: 3_600_000 };
    assert.equal(headingText(at(3_612_000, ["heading_stale"]), last),
        "NO HEADING FOR 12 s. Bearings are relative to the array; grey ones are true by the last heading, 213.0 at 01:00:00Z");
    assert.equal(withHeading(at(0, ["heading_stale"]).header, last).heading_deg, 213);
    assert.equal(withHeading(at(0, []).header, last).heading_deg, null);
});

test("ticks are round", () => {
    assert.deepEqual(ticks(0, 180, 6, "deg"), [0, 30, 60, 90, 120, 150, 180]);
    assert.deepEqual(ticks(0.3, 1, 4), [0.4, 0.6000000000000001, 0.8, 1]);
    assert.deepEqual(timeTicks(1500, 9000, 4), [2000, 4000, 6000, 8000]);
});

test("an array is drawn on one scale, its side above its plan", () => {
    const place = { left: 50, top: 10, width: 800, height: 400 };
    const line = Float32Array.from([-24, 0, 0, NaN, NaN, NaN, 0, 0, 0, 24, 0, 3]);
    const fit = fitArray(line, place, 20, 10)!;
    assert.ok(Math.abs(fit.px_per_m - 760 / 48) < 1e-9, "the line fills the width");
    assert.deepEqual(placeIn(fit, fit.plan, -24, 0)[0], 70);
    assert.ok(Math.abs(placeIn(fit, fit.plan, 24, 0)[0] - 830) < 1e-9);
    const [, shallow] = placeIn(fit, fit.side, 0, 0);
    const [, deep] = placeIn(fit, fit.side, 0, 3);
    assert.ok(Math.abs(deep - shallow - 3 * fit.px_per_m) < 1e-9, "deeper is lower");
    assert.ok(shallow > fit.side.place.top && deep < fit.side.place.top + fit.side.place.height);
    assert.ok(fit.plan.place.top >= fit.side.place.top + fit.side.place.height + 10);
    assert.ok(Math.abs(fit.plan.place.top + fit.plan.place.height - 410) < 1e-9);
    const circle = fitArray(Float32Array.from([6, 0, 0, 0, 6, 0, -6, 0, 0, 0, -6, 0]), place, 20, 10)!;
    assert.ok(Math.abs(circle.px_per_m - (390 - 80) / 12) < 1e-9, "the circle fills the height");
    assert.equal(fitArray(Float32Array.of(1, 2, 3), place, 20, 10)!.px_per_m, 20, "a single hydrophone");
    assert.equal(fitArray(Float32Array.of(NaN, NaN, NaN), place, 20, 10), null);
});

test("elements are told apart: faulty, taken out, masked by hand", () => {
    const list = (count: number, ...channels: [number, number][]) => ({ count, sensors: channels, channels });
    const none = list(0);
    const elements = { judged: 9, masked: 1, dead: list(2, [2, 3]), stuck: none, noisy: list(1, [3, 3]), hum: none, clipped: none, identical: list(2, [3, 4]) };
    const status = { elements: { ...elements, masked_auto: list(1, [3, 3]), masked_hand: list(1, [9, 9]) } } as unknown as Status;
    const { states, complete } = elementStates(status, 10);
    assert.ok(complete);
    assert.deepEqual(states[1], { fault: null, masked: null });
    assert.deepEqual(states[2], { fault: "dead", masked: null });
    assert.deepEqual(states[3], { fault: "dead", masked: "automatically" }, "the worst fault");
    assert.deepEqual(states[4], { fault: "identical", masked: null });
    assert.deepEqual(states[9], { fault: null, masked: "by hand" });
    status.elements!.hum = list(40, [0, 0]);
    assert.ok(!elementStates(status, 10).complete, "the daemon names the first ranges only");
    assert.ok(elementStates(null, 3).states.length === 3, "before the first status");
});

test("MUSIC has a scale of its own from nothing on, and says that it has no level", () => {
    const made = (values: number[], music: object | null) => ({ ...row(0, 0), data: Float32Array.from(values), header: { ...row(0, 0).header, music } }) as Row;
    assert.deepEqual(musicLimits(null), [0, 5]);
    assert.deepEqual(musicLimits(made([1, 1, 1], null)), [0, 5], "nothing anywhere");
    assert.deepEqual(musicLimits(made([1, 2000, 30], null)), [0, 40], "33 dB and some room for the peak");
    const texts = [{ counted: true, median: 2, most: 3, bins: 9 }, { counted: false, median: 1, most: 1, bins: 9 }].map((m) => musicText(made([1], m)));
    assert.deepEqual(texts.map(({ short }) => short), Array(2).fill("MUSIC (own scale, no level)"));
    assert.match(texts[0].full, /0 dB where nothing is; median 2 sources in a bin$/);
    assert.match(texts[1].full, /; 1 source in a bin$/);
    assert.match(musicText(null).short, /mvdr\.music/, "what to do");
});

test("a spectrum that the others have left behind, or that is of another run, is not shown as the present", () => {
    const at = (utc_ms: number, run = "r") => ({ ...row(0, 0), utc_ms, header: { ...row(0, 0).header, run } }) as Row;
    assert.ok(isCurrent(at(1000), at(4000)) && isCurrent(at(5000), at(4000)));
    assert.ok(!isCurrent(at(999), at(4000)));
    assert.ok(!isCurrent(at(1000, "before"), at(1000)));
    assert.ok(isCurrent(at(0), { ...at(9000), span_ms: 5000 }), "windows of five seconds");
});

test("topics sent only while shown are cleared when they are requested again; the record stays", () => {
    const store = new Store();
    store.take({ type: "axes", id: 1, axes: [{ name: "azimuth", unit: "deg", start: 0, step: 1 }] }, new Float32Array(0));
    const send = (topic: string, sample: number) => {
        const header = { ...row(sample, sample).header, topic, utc_ns: 1e6 * sample, heading_deg: null, flags: [] as string[] } as RowHeader;
        store.take({ type: "row", source: 0, axes: 1, age_ms: 0, header }, Float32Array.of(1, 2, 3));
    };
    for (const sample of [100, 200, 300]) for (const topic of ["cbf.azimuth", MUSIC]) send(topic, sample);
    assert.equal(store.cbf.rows.length, 3);
    assert.deepEqual(store.music.rows.map((r) => r.utc_ms), [300], "the newest alone");
    for (const topic of ["cbf.azimuth", MUSIC]) store.take({ type: "begin", source: 0, topic }, new Float32Array(0));
    assert.deepEqual([store.cbf.rows.length, store.music.rows.length, store.latest.has(MUSIC)], [3, 0, false]);
    send(MUSIC, 400);
    store.select(1);
    assert.equal(store.music.rows.length, 0, "another daemon");
});

test("what is not known is a dash", () => {
    assert.deepEqual([fixed(null, 2), fixed(1.234, 2), latency(null), latency(3367400), latency(812)], ["–", "1.23", "–", "3.37 s", "0.8 ms"]);
});

const NORTH: Bearings = { ...LINE, bearing_reference: "true" };

function bearing(bearing_deg: number, change: Partial<TrackBearing> = {}): TrackBearing {
    return { bearing_deg, bearing_sigma_deg: 0.1, rate_deg_per_min: 0, rate_sigma_deg_per_min: 0.5, side: null, probability: 1, ...change };
}

function track(number: number, az_deg: number, bearings: number[], change: Partial<Track> = {}): Track {
    const rest = { existence: 1, snr_db: 12, age_s: 60, unheard_s: 0, contact: 0, rests_on: ["cbf"] };
    return { number, state: "confirmed", az_deg, bearings: bearings.map((deg) => bearing(deg)), ...rest, ...change };
}

test("a track's line stands at its angle, or at its true bearings on each side that the message gives", () => {
    const both = tracesOf([track(7, 70, [110, 330]), track(8, 20, [60])], NORTH);
    const places = (traces: Float32Array, frame: "array" | "true", start: number | null) =>
        runsOf(traces, null, frame, start).map(({ number, from, to }) => [number, from, to]);
    assert.deepEqual(places(both, "array", null), [[7, 70, 70], [8, 20, 20]]);
    assert.deepEqual(places(both, "true", 0), [[7, 110, 110], [7, 330, 330], [8, 60, 60]]);
    // Bearings in the array frame have no place among true ones; their angles still have theirs.
    const headless = tracesOf([track(7, 70, [80, 300])], { ...LINE, heading_deg: null, bearing_reference: "array" });
    assert.deepEqual(places(headless, "true", 0), []);
    assert.deepEqual(places(headless, "array", null), [[7, 70, 70]]);
    assert.deepEqual(places(tracesOf([track(1, 350, [350])], NORTH), "array", -180), [[1, -10, -10]], "an axis that begins at -180");
});

test("lines connect windows, leave at 360 degrees and enter at 0, and come from nowhere after a gap", () => {
    const at = (...tracks: [number, number[]][]) => tracesOf(tracks.map(([number, bearings]) => track(number, bearings[0], bearings)), NORTH);
    const runs = (now: Float32Array, before: Float32Array | null) =>
        runsOf(now, before, "true", 0).map(({ number, from, to }) => [number, Math.round(10 * from), Math.round(10 * to)]);
    assert.deepEqual(runs(at([3, [100]]), at([2, [50]], [3, [98]])), [[3, 980, 1000]]);
    assert.deepEqual(runs(at([3, [2]]), at([3, [357]])), [[3, -30, 20], [3, 3570, 3620]]);
    assert.deepEqual(runs(at([3, [357]]), at([3, [2]])), [[3, 3620, 3570], [3, 20, -30]]);
    assert.deepEqual(runs(at([3, [2]]), null), [[3, 20, 20]]);
    assert.deepEqual(runs(at([3, [2]]), at([4, [1]])), [[3, 20, 20]], "another track's place is not its own");
    // Sides change places in the message when one of them becomes more probable; their lines go on.
    assert.deepEqual(runs(at([3, [330, 110]]), at([3, [111, 329]])), [[3, 3290, 3300], [3, 1110, 1100]]);
    assert.deepEqual(runs(at([3, [330]]), at([3, [111, 329]])), [[3, 3290, 3300]]);
    // On an angle that is no circle nothing wraps.
    assert.deepEqual(runsOf(at([3, [2]]), at([3, [178]]), "array", null).map(({ from, to }) => [from, to]), [[178, 2]]);
});

test("the states of a track are told apart without colour: in ink, and in the sign after its number", () => {
    const patterns = (["tentative", "confirmed", "coasting"] as const).map((state) =>
        Array.from({ length: 78 }, (_, height) => (isInked(state, height - 39) ? "#" : " ")).join(""));
    assert.ok(/ #{2} {4}#{2} /.test(patterns[0]) && !/#{3}/.test(patterns[0]), "dots");
    assert.match(patterns[1], /^#*$/);
    assert.ok(/ #{8} {5}#{8} /.test(patterns[2]) && !/#{9}/.test(patterns[2]), "dashes");
});

test("tracks keep what the record still shows, and no more", () => {
    const tracks = new Tracks();
    tracks.update([track(1, 70, [110]), track(2, 80, [120])], 1000, NORTH, 5000);
    tracks.update([track(2, 81, [121], { state: "lost" })], 2000, NORTH, 5000);
    assert.deepEqual(tracks.list.map((t) => [t.now.number, t.last_ms, t.now.az_deg]), [[1, 1000, 70], [2, 2000, 81]]);
    tracks.update([], 6500, NORTH, 5000);
    assert.deepEqual(tracks.list.map((t) => t.now.number), [2]);
    for (let i = 0; i < 1000; i++) tracks.update([track(10 + i, 70, [110])], 7000 + i, NORTH, 1e9);
    assert.deepEqual([tracks.list.length, tracks.list[199].now.number, tracks.list[0].now.number], [200, 1009, 810]);
    tracks.update([track(5, 70, [110])], 100, NORTH, 1e9);
    assert.deepEqual(tracks.list.map((t) => t.now.number), [5], "a timeline that began again");
    assert.equal(tracks.find(null), null);
});

test("a window's tracks reach its rows, whichever comes first, and a lost message leaves its window without", () => {
    const store = storeWithAxis();
    const send = (topic: string, sample: number, tracks?: Track[]) =>
        store.take(frameOf(topic, sample, { tracks, bearing_reference: tracks ? "true" : "array" }), topic === "tracks" ? new Float32Array(0) : Float32Array.of(1, 2, 3));
    for (const sample of [100, 200, 300]) {
        if (sample === 100) send("tracks", sample, [track(4, 70, [110, 330])]);
        for (const topic of ["cbf.azimuth", "mvdr.azimuth"]) send(topic, sample);
        if (sample === 300) send("tracks", sample, [track(4, 71, [111, 329])]);
    }
    for (const { rows } of [store.cbf, store.mvdr])
        assert.deepEqual(rows.map((r) => runsOf(r.traces, null, "array", null).map((run) => run.to)), [[70], [], [71]]);
    assert.deepEqual(store.tracks.list.map((t) => [t.now.number, t.last_ms]), [[4, 300]]);
    // A bridge that connects again repeats what the page knows.
    store.take({ type: "begin", source: 0, topic: "tracks" }, new Float32Array(0));
    send("tracks", 100, [track(4, 70, [110, 330])]);
    assert.equal(store.tracks.list[0].now.az_deg, 71);
    store.track = 4;
    store.select(1);
    assert.deepEqual([store.tracks.list.length, store.track], [0, null]);
});

test("a followed track is followed through a restart that kept its number, and not into another track of that number", () => {
    for (const [age_s, array, followed] of [[90, "bow", 4], [20, "bow", null], [90, "stern", null]] as const) {
        const store = storeWithAxis();
        const send = (sample: number, change: object) => store.take(frameOf("tracks", sample, change), new Float32Array(0));
        send(1000, { array: "bow", run: "a", tracks: [track(4, 70, [110], { age_s: 60 })] });
        store.track = 4;
        send(31_000, { array, run: "b", tracks: [track(4, 70, [110], { age_s })] });
        assert.equal(store.track, followed, `${age_s} s old, of ${array}, 30 s later`);
    }
});

test("a followed track's values have their errors, sides and frame", () => {
    const now = track(7, 70, [], {
        state: "coasting",
        existence: 0.98765,
        unheard_s: 12,
        rests_on: ["cbf", "mvdr"],
        bearings: [
            bearing(359.97, { side: "starboard", probability: 0.7, rate_deg_per_min: -1.234, bearing_sigma_deg: 0.123 }),
            bearing(80, { side: "port", probability: 0.3, rate_deg_per_min: 1.234 }),
        ],
    });
    assert.deepEqual(valuesOf({ now, by: NORTH, last_ms: 0 }, null, 0), [
        ["track", "7"],
        ["state", "coasting, existence 0.9877"],
        ["bearing", "000.0 ± 0.12 deg true, stbd 70 %"],
        ["rate", "\u22121.23 ± 0.50 deg/min"],
        ["bearing", "080.0 ± 0.10 deg true, port 30 %"],
        ["rate", "+1.23 ± 0.50 deg/min"],
        ["age", "60 s"],
        ["heard", "12 s ago"],
        ["source", "cbf+mvdr, SNR 12.0 dB"],
    ]);
    assert.deepEqual(valuesOf({ now: { ...now, tones_hz: [50.04, 783] }, by: NORTH, last_ms: 0 }, null, 0).at(-1), ["tones", "50.0, 783.0 Hz"]);
    const headless = { now, by: { ...LINE, bearing_reference: "array" }, last_ms: 0 };
    assert.match(valuesOf(headless, null, 9000).map(([, text]) => text).join(), /coasting, 9\.0 s ago.*000\.0 .* array frame/);
    assert.match(valuesOf(headless, 20, 0)[2][1], /^020\.0 .* true/, "by the last heading");
    assert.deepEqual(placedOf(now), { az_deg: 70, bearing_deg: 359.97, mirror_deg: 80, side: "unknown" });
    assert.deepEqual(placedOf({ ...now, bearings: now.bearings.slice(1) }), { az_deg: 70, bearing_deg: 80, mirror_deg: null, side: "port" });
});

test("a beam's sound has neither offset nor steps of its loudness, and what is missing is silent", () => {
    const fs_hz = 48_000;
    const sound = new Sound();
    const tone = (n: number, amplitude: number) => new Float32Array(n).map((_, i) => 1e6 + amplitude * Math.sin((2 * Math.PI * 1000 * i) / fs_hz));
    const heard = [100, 100, 50, 50].flatMap((amplitude) => [...sound.take(tone(fs_hz, amplitude), fs_hz).samples]);
    const loudest = (samples: number[]) => samples.reduce((most, x) => Math.max(most, Math.abs(x)), 0);
    assert.ok(loudest(heard) <= 0.51, "the loudest sample is half of what fits");
    const part = (from: number) => loudest(heard.slice(from * fs_hz, (from + 1) * fs_hz));
    assert.ok(Math.abs(part(1) - 0.5) < 0.01 && part(2) > 0.24 && part(2) < 0.29, "half as loud sounds half as loud, and slowly louder");
    const step = heard.slice(1000).reduce((most, x, i) => Math.max(most, Math.abs(x - heard[i + 999])), 0);
    assert.ok(step < 0.09, `a step of ${step}`); // a tone of 0.5 has 0.065
    const gap = tone(480, 100);
    gap.fill(NaN, 200, 300);
    const { samples } = sound.take(gap, fs_hz);
    assert.ok(samples.slice(200, 301).every((x) => x === 0) && samples.every(Number.isFinite) && Math.abs(samples[320]) > 0.01);
    assert.ok(new Sound().take(new Float32Array(64).fill(NaN), fs_hz).samples.every((x) => x === 0));
});

test("rates that a browser does not play are made such", () => {
    const slow = new Sound();
    const ramp = (from: number) => new Float32Array(100).map((_, i) => Math.sin((from + i) / 5));
    const pieces = [slow.take(ramp(0), 3000), slow.take(ramp(100), 3000)];
    for (const { samples, rate_hz } of pieces) assert.deepEqual([samples.length, rate_hz], [300, 9000]);
    const all = [...pieces[0].samples, ...pieces[1].samples];
    assert.ok(all.slice(3).every((x, i) => Math.abs(x - all[i + 2]) < 0.05), "straight lines, across messages too");
    const { samples, rate_hz } = new Sound().take(ramp(0), 250_000);
    assert.deepEqual([samples.length, Math.round(rate_hz)], [33, 83_333]);
    const same = new Sound().take(ramp(0), 8000);
    assert.deepEqual([same.samples.length, same.rate_hz], [100, 8000]);
});

test("messages are played one after the other, with their gaps, and a late one costs a pause", () => {
    const playout = new Playout();
    assert.equal(playout.place(10, 5000, 1000, 1000), 10.3);
    assert.equal(playout.place(10.9, 6000, 1000, 1000), 11.3);
    assert.equal(playout.place(11.5, 7500, 1000, 1000), 12.8, "half a second is missing");
    assert.equal(playout.ahead_s(12.8), 1);
    assert.equal(playout.place(14, 8500, 1000, 1000), 14.3, "it came 0.2 s too late");
    assert.deepEqual([playout.stalls, playout.skips], [1, 0]);
    assert.equal(playout.place(14.1, 9500, 1000, 1000), 15.3);
    assert.equal(playout.place(14.2, 10_500, 1000, 1000), null, "2.1 s ahead");
    assert.equal(playout.place(15.5, 11_500, 1000, 1000), null, "0.8 s are still to be played");
    assert.equal(playout.place(16.5, 12_500, 1000, 1000), 16.8, "what is skipped is not waited for");
    assert.deepEqual([playout.stalls, playout.skips], [1, 1]);
    assert.equal(playout.place(20, 0, 1000, 1000), 20.3, "another stream");
});

test("sound goes on, no later than before, after the sound card's clock stood still", () => {
    const playout = new Playout();
    const clock_s = (i: number) => 10 + i / 4 - Math.min(Math.max(i - 8, 0), 20) / 4; // for 20 messages
    const places = Array.from({ length: 60 }, (_, i) => playout.place(clock_s(i), 1000 * i, 1000, 4000));
    const played = places.map((at_s, i) => at_s !== null && i).filter((i) => i !== false);
    assert.deepEqual(played.filter((i) => i > 33).length, 26, "all from soon after it goes on");
    assert.ok(Math.abs(places[59]! - clock_s(59) - 0.3) < 1e-9);
    assert.deepEqual([playout.stalls, playout.skips], [0, 1]);
});
