// SPDX-License-Identifier: GPL-3.0-or-later
// One daemon: its subscriptions, the history of its topics, and what is known of its health.
import { Subscriber } from "zeromq";
import type { SourceState } from "../shared/frames.js";
import { Integrator, pack } from "./surfaces.js";
import { decode, ProtocolError, type Message } from "../shared/protocol.js";
import { AxesTable } from "./axes.js";
import type { Keys } from "./certificate.js";
import { History } from "./history.js";
import { TOPICS, type Topic } from "./topics.js";
import { Waits } from "./waits.js";

const HIGH_WATER_MARK = 256; // messages that ZeroMQ queues for the bridge
const REOPEN_MS = 10_000;
const MINUTES_BYTES = 128 << 20; // limit for each topic
const SURFACES_BYTES = 256 << 20;
const SECONDS_MS = 5000;
const SECONDS_BYTES = 32 << 20;

const NOTHING = new Float32Array(0);

export interface SourceOptions {
    name: string;
    endpoint: string;
    history_ms: number;
    keys: Keys | null;
}

export class Source {
    readonly histories = new Map<string, History>();
    private integrators = new Map<string, Integrator>(); // of surfaces
    private socket: Subscriber | null = null;
    private wanted = new Map<string, number>(); // number of pages that want a topic, by its name
    private subscribed = new Set<Topic>(); // subscriptions to topics that are not always subscribed to
    private seqs = new Map<string, { run: string; seq: number }>();
    private axes = new AxesTable();
    private heard_ms = performance.now();
    private status_ms: number | null = null;
    private data_ms: number | null = null;
    private closed = false;
    private state = { array: null as string | null, health: null as string | null, text: "" };
    private counts = { refused: 0, refused_why: "", missed: 0, reopened: 0 };
    private foreign = ""; // reason for which the last message was refused
    private readonly waits: Waits;
    private watch: NodeJS.Timeout;

    /** changed is called after each message. */
    constructor(
        readonly options: SourceOptions,
        private readonly changed: () => void,
    ) {
        this.waits = new Waits(options.keys !== null);
        for (const topic of TOPICS) {
            this.histories.set(topic.name, this.newHistory(topic));
            if (topic.keep === "surfaces") this.integrators.set(topic.name, new Integrator(options.history_ms, SURFACES_BYTES));
        }
        this.open();
        this.watch = setInterval(() => {
            this.giveUp();
            this.reopenIfSilent();
        }, 1000);
    }

    /** Adds a page that wants a topic. Each call must be matched by a release. */
    want(name: string): void {
        this.wanted.set(name, (this.wanted.get(name) ?? 0) + 1);
        const topic = TOPICS.find((t) => t.name === name);
        if (!topic || topic.always || this.subscribed.has(topic)) return;
        this.subscribed.add(topic);
        this.socket?.subscribe(topic.from);
    }

    release(name: string): void {
        const count = (this.wanted.get(name) ?? 0) - 1;
        if (count > 0) this.wanted.set(name, count);
        else this.wanted.delete(name);
    }

    /** Ends subscriptions that no page wants. Done once a second, so that a page that wants and releases a topic
     * repeatedly causes no work in the daemon. Rows of a topic without a page are deleted, because they would later be
     * shown as current. */
    private giveUp(): void {
        for (const topic of this.subscribed) {
            if (this.wanted.has(topic.name)) continue;
            this.subscribed.delete(topic);
            this.socket?.unsubscribe(topic.from);
            this.histories.get(topic.name)?.clear();
            this.integrators.get(topic.name)?.clear();
            this.seqs.delete(topic.from);
        }
    }

    describe(): SourceState {
        const now = performance.now();
        return {
            name: this.options.name,
            endpoint: this.options.endpoint,
            ...this.state,
            status_age_ms: this.status_ms === null ? null : now - this.status_ms,
            data_age_ms: this.data_ms === null ? null : now - this.data_ms,
            ...this.counts,
            waits: this.waits.why || this.foreign,
        };
    }

    close(): void {
        this.closed = true;
        clearInterval(this.watch);
        this.socket?.close();
    }

    private newHistory(topic: Topic): History {
        if (topic.keep === "minutes") return new History(this.options.history_ms, MINUTES_BYTES);
        if (topic.keep === "seconds") return new History(SECONDS_MS, SECONDS_BYTES);
        if (topic.keep === "surfaces") return new History(this.options.history_ms, SURFACES_BYTES);
        return new History(0, 0);
    }

    private open(): void {
        const { keys, endpoint } = this.options;
        const socket = new Subscriber({
            receiveHighWaterMark: HIGH_WATER_MARK,
            reconnectInterval: 200,
            reconnectMaxInterval: 2000,
            linger: 0,
            ipv6: endpoint.includes("["),
            tcpKeepalive: 1,
            tcpKeepaliveIdle: 3,
            tcpKeepaliveInterval: 1,
            tcpKeepaliveCount: 3,
            ...(keys && { curveServerKey: keys.server, curvePublicKey: keys.public, curveSecretKey: keys.secret }),
        });
        this.waits.follow(socket);
        socket.connect(endpoint);
        socket.subscribe(...TOPICS.filter((t) => this.isSubscribed(t)).map((t) => t.from));
        this.socket = socket;
        void this.read(socket);
    }

    private isSubscribed(topic: Topic): boolean {
        return topic.always || this.subscribed.has(topic);
    }

    /** libzmq gives an endpoint up permanently after a wrong answer, so the bridge opens a new socket. */
    private reopenIfSilent(): void {
        if (performance.now() - this.heard_ms < REOPEN_MS) return;
        this.heard_ms = performance.now();
        this.counts.reopened++;
        this.socket?.close();
        this.open();
    }

    private async read(socket: Subscriber): Promise<void> {
        try {
            for await (const parts of socket) this.receive(parts);
        } catch (error) {
            if (!this.closed && socket === this.socket) this.refuse(error);
        }
    }

    private receive(parts: Uint8Array[]): void {
        this.heard_ms = performance.now();
        try {
            this.take(decode(parts));
            this.foreign = "";
        } catch (error) {
            this.refuse(error);
        }
        this.changed();
    }

    private refuse(error: unknown): void {
        this.counts.refused++;
        this.counts.refused_why = error instanceof ProtocolError ? error.message : String(error);
        this.foreign = `sends messages that this bridge refuses: ${this.counts.refused_why}`;
    }

    private take(message: Message): void {
        const { header } = message;
        this.countMissed(header.topic, header.run, header.seq);
        if (header.topic === "status") this.takeStatus(message);
        if (header.topic.endsWith(".azimuth")) this.data_ms = this.heard_ms;
        for (const topic of TOPICS) {
            if (topic.from !== header.topic || !this.isSubscribed(topic)) continue;
            const made = topic.make ? topic.make(message) : message;
            const { axes, ...rest } = made.header;
            const entry = { axes: this.axes.number(axes), received_ms: this.heard_ms };
            const history = this.histories.get(topic.name)!;
            const integrator = this.integrators.get(topic.name);
            if (!integrator) history.push({ ...entry, header: rest, data: made.data });
            else for (const { header: mean, data } of integrator.add(rest, made.data)) history.push({ ...entry, header: mean, data: NOTHING, packed: pack(data) });
        }
    }

    private takeStatus({ header }: Message): void {
        this.state = { array: header.array, health: header.health ?? null, text: header.text ?? "" };
        if (!header.flags.includes("repeat")) this.status_ms = this.heard_ms;
    }

    private countMissed(topic: string, run: string, seq: number): void {
        const before = this.seqs.get(topic);
        if (before && before.run === run && seq > before.seq + 1) this.counts.missed += seq - before.seq - 1;
        this.seqs.set(topic, { run, seq });
    }
}
