// SPDX-License-Identifier: GPL-3.0-or-later
// The daemon's health, what the bridge lost, and what this page omitted.
import { element, setText } from "../dom.js";
import { Empty, waitingText } from "../empty.js";
import { duration, latency as inTime, utcDate, utcTime } from "../format.js";
import { lossesOf, statusOf, type Faults, type Spread, type Status } from "../status.js";
import type { Store } from "../store.js";
import type { Context, View } from "./view.js";

type Facts = [string, string][];

const count = (n: number | null | undefined) => (n === null || n === undefined ? "–" : n.toLocaleString("en"));
const seconds = (s: number | null | undefined) => (s === null || s === undefined ? "–" : `${s.toFixed(3)} s`);

const SECTIONS: [string, (status: Status, store: Store, now_ms: number) => Facts][] = [
    ["Health", health],
    ["Losses since the daemon began, by cause", losses],
    ["Latency in the last second, in to out", latencies],
    ["Rates", rates],
    ["Adaptive beamformer", adaptive],
    ["Elements", elements],
    ["Daemon", daemon],
    ["Bridge and page", bridge],
];

function health(status: Status): Facts {
    const conditions = (status.conditions ?? []).map((c): [string, string] => [
        `${c.severity}: ${c.code.replace(/_/g, " ")}`,
        `${c.text} (${duration(c.for_s)})`,
    ]);
    return [["health", status.health], ["why", status.text || "–"], ...conditions];
}

function losses(status: Status, store: Store): Facts {
    const found = lossesOf(status).map(([cause, n]): [string, string] => [cause, count(n)]);
    const samples: Facts = [
        ["samples missing", count(status.samples?.missing)],
        ["samples late", count(status.samples?.late)],
        ["samples repeated", count(status.samples?.repeated)],
    ];
    const when: Facts = found.length ? [["when", store.losses.when]] : [["none", "0"]];
    return [...found, ...when, ...samples];
}

/** Parts are too short to be shown in tenths of a millisecond. */
function inMicroseconds(us: number | null | undefined): string {
    return us === null || us === undefined ? "–" : `${us.toFixed(0)} us`;
}

function latencies(status: Status): Facts {
    const last = (spread: Spread | undefined) => [spread?.p50_us, spread?.p99_us, spread?.max_us].map(inTime).join(" / ");
    const stages = Object.entries(status.stage_us ?? {}).map(([stage, us]): [string, string] => [`stage ${stage}`, inTime(us)]);
    const parts = Object.entries(status.latency_parts ?? {}).map(([part, spread]): [string, string] => [`mean in ${part}`, inMicroseconds(spread.mean_us)]);
    return [["median / 99 % / most", last(status.latency)], ["mean, the sum of the parts", inMicroseconds(status.latency?.mean_us)], ...parts, ...stages];
}

function rates(status: Status): Facts {
    const { stream } = status;
    return [
        ["samples a second and channel", stream?.rate_hz ? stream.rate_hz.toFixed(1) : "–"],
        ["nominal", `${status.fs_hz} Hz`],
        ["frames received", count(status.frames?.received)],
        ["windows processed", count(status.windows?.processed)],
        ["since the last frame", seconds(stream?.since_frame_s)],
        ["age of the newest sample", seconds(stream?.age_s)],
        ["age of the newest result", seconds(stream?.result_age_s)],
        ["blocks received / silent", `${count(status.blocks?.seen)} / ${count(status.blocks?.silent)}`],
    ];
}

function adaptive(_: Status, store: Store): Facts {
    const header = store.mvdr.last?.header as Record<string, unknown> | undefined;
    if (!header) return [["MVDR", "not published"]];
    const loading = header.loading as { rule: string; eps: number; delta: number } | null;
    const number = (name: string, digits: number) =>
        typeof header[name] === "number" ? String(Number((header[name] as number).toPrecision(digits))) : "–";
    return [
        ["snapshots", number("snapshots", 4)],
        ["loading", loading ? `${loading.rule}, eps ${loading.eps}` : "–"],
        ["most sweeps", number("most_sweeps", 3)],
        ["bins not converged", number("bins_not_converged", 4)],
        ["worst residual", number("worst_residual", 2)],
        ["level bias, dB", number("level_bias_db", 3)],
    ];
}

function elements(status: Status): Facts {
    const { judged, masked: _, ...faults } = status.elements ?? { judged: null };
    const list = Object.entries(faults as Record<string, Faults>).map(([fault, found]): [string, string] => [
        { masked_auto: "masked automatically", masked_hand: "masked by hand" }[fault] ?? fault,
        found.count ? `${found.count}: channels ${ranges(found.channels)}` : "0",
    ]);
    return [["judged", count(judged)], ...list];
}

function ranges(pairs: [number, number][]): string {
    return pairs.map(([a, b]) => (a === b ? String(a) : `${a}-${b}`)).join(", ");
}

function daemon(status: Status, store: Store): Facts {
    return [
        ["array", status.array],
        ["backend", [status.backend, status.backend_text].filter(Boolean).join(": ")],
        ["running for", duration(status.uptime_s ?? NaN)],
        ["load", status.load === undefined ? "–" : `${(100 * status.load).toFixed(0)} %`],
        ["memory", status.resident_bytes ? `${(status.resident_bytes / 2 ** 20).toFixed(1)} MiB` : "–"],
        ["heading", status.heading_deg === null ? "unknown" : `${status.heading_deg.toFixed(1)} deg true`],
        ["speed of sound", `${(status as { sound_speed_mps?: number }).sound_speed_mps ?? "–"} m/s`],
        ["sensors used", count(store.newest?.header.sensors_used)],
        ["subscriptions", count(status.output?.subscriptions)],
        ["wanted", (status.output?.wanted ?? []).join(", ")],
        ["configuration", status.config_version.slice(0, 18)],
        ["run", status.run],
    ];
}

function bridge(status: Status, store: Store, now_ms: number): Facts {
    const source = store.sources[store.selected];
    const row = store.newest;
    return [
        ["endpoint", source?.endpoint ?? "–"],
        ["status from", status.utc_ns ? `${utcDate(status.utc_ns / 1e6)} ${utcTime(status.utc_ns / 1e6)}Z` : "–"],
        ["newest window", row ? `${row.header.window}, ${utcTime(row.utc_ms, 1)}Z, ${duration(store.dataAge_ms(now_ms)! / 1000)} old` : "–"],
        ["missed by the bridge", count(source?.missed)],
        ["refused by the bridge", source?.refused ? `${source.refused}: ${source.refused_why}` : "0"],
        ["connection reopened", count(source?.reopened)],
        ["rows omitted here", count(store.dropped)],
        ["windows kept here", `${store.cbf.rows.length} CBF, ${store.mvdr.rows.length} MVDR`],
    ];
}

export class HealthView implements View {
    readonly name = "health";
    readonly title = "Health";
    readonly root = element("div", { class: "view facts" });
    private bodies = SECTIONS.map(([title]) => {
        const body = element("tbody");
        this.root.append(element("section", {}, [element("h3", {}, [title]), element("table", {}, [body])]));
        return body;
    });
    private empty = new Empty();
    private drawn_ms = -Infinity;

    constructor(private readonly context: Context) {
        this.root.prepend(this.empty.root);
    }

    wants(): string[] {
        return [];
    }

    draw(now_ms: number): void {
        const status = statusOf(this.context.store);
        this.empty.say(status ? "" : waitingText(this.context.store, "status"));
        if (!status || now_ms - this.drawn_ms < 200) return;
        this.drawn_ms = now_ms;
        SECTIONS.forEach(([, facts], i) => show(this.bodies[i], facts(status, this.context.store, now_ms)));
    }
}

function show(body: HTMLElement, facts: Facts): void {
    while (body.children.length > facts.length) body.lastChild!.remove();
    while (body.children.length < facts.length) body.append(element("tr", {}, [element("td"), element("td")]));
    facts.forEach(([name, value], i) => {
        setText(body.children[i].children[0], name);
        setText(body.children[i].children[1], value);
    });
}
