// SPDX-License-Identifier: GPL-3.0-or-later
// One page. It reads the histories with a cursor for each topic, so nothing is queued for it. The bytes on their way
// are bounded by what the page has acknowledged and by what its connection accepts, whatever it requests. A page that
// is too slow skips whole rows and is informed.
import type { WebSocket } from "ws";
import { encodeFrame, parseRequest, type FromPage, type ToPage } from "../shared/frames.js";
import type { Entry, History } from "./history.js";
import type { Source } from "./source.js";
import { slice, TOPICS } from "./topics.js";

const IN_FLIGHT_BYTES = 4 << 20; // sent and not acknowledged
const BUFFERED_BYTES = 1 << 20; // not yet accepted by the connection, acknowledged or not
const SILENT_MS = 30_000; // a page that acknowledges nothing for this time is gone, because it is sent something every
// second
const IDLE_MS = 5000; // a page that is idle for this time may lose its place to another
const REQUESTS = 200; // requests at once, without acknowledgements
const REQUESTS_PER_S = 50;
const LAG_MS = 5000; // time by which a page may be behind after it had caught up
const AXES_REMEMBERED = 256;

interface Cursor {
    begun: boolean; // the page was sent "begin" for the topic's rows
    next: number;
    caughtUp: boolean;
}

export class Client {
    private source = 0;
    private wanted: string[] = [];
    private cursors = new Map<string, Cursor>();
    private axesSent = new Set<number>();
    private az_deg = 90;
    private sent_bytes = 0;
    private acknowledged_bytes = 0;
    private acknowledged_ms: number;
    private credit = REQUESTS;
    private asked_ms: number;
    private gone = false;

    /** clock: monotonic, in ms. */
    constructor(
        private readonly socket: WebSocket,
        private readonly sources: readonly Source[],
        private readonly clock = () => performance.now(),
    ) {
        this.acknowledged_ms = this.asked_ms = clock();
        this.select(0);
        socket.on("message", (data, binary) => this.hear(binary ? null : parseRequest(String(data))));
        socket.on("ping", (data) => this.isFull() || socket.pong(data));
        socket.on("close", () => this.leave());
    }

    isIdle(): boolean {
        return this.clock() - this.acknowledged_ms > IDLE_MS;
    }

    /** Once a second: sends the header, if the page keeps up, and ends a page that has gone. */
    tick(header: ToPage): void {
        if (this.clock() - this.acknowledged_ms > SILENT_MS) return this.hangUp(`nothing was acknowledged for ${SILENT_MS / 1000} s`);
        this.tell(header);
        this.pump();
    }

    /** Sends what is waiting, as far as the page can take it. */
    pump(): void {
        if (this.gone) return;
        const source = this.sources[this.source];
        for (const topic of TOPICS) {
            const cursor = this.cursors.get(topic.name);
            if (cursor && !this.pumpTopic(topic.name, source.histories.get(topic.name)!, cursor)) return;
        }
    }

    /** Sends a header that is repeated every second; omitted if the page does not keep up. */
    tell(header: ToPage): void {
        if (!this.isFull()) this.send(header);
    }

    private isFull(): boolean {
        return this.gone || this.sent_bytes - this.acknowledged_bytes > IN_FLIGHT_BYTES || this.socket.bufferedAmount > BUFFERED_BYTES;
    }

    private send(header: ToPage, data?: Float32Array): void {
        const frame = encodeFrame(header, data);
        this.sent_bytes += frame.byteLength;
        this.socket.send(frame);
    }

    /** False: the page must first take what was sent. */
    private pumpTopic(topic: string, history: History, cursor: Cursor): boolean {
        if (this.isFull()) return false;
        if (!cursor.begun) this.send({ type: "begin", source: this.source, topic });
        cursor.begun = true;
        while (cursor.next < history.next) {
            if (this.isFull()) return false;
            this.moveOn(topic, history, cursor);
            this.sendRow(topic, history.at(cursor.next));
            cursor.next++;
        }
        cursor.caughtUp = true;
        return true;
    }

    private moveOn(topic: string, history: History, cursor: Cursor): void {
        let next = Math.max(cursor.next, history.first);
        const age_ms = performance.now() - history.at(next).received_ms;
        if (cursor.caughtUp && age_ms > LAG_MS) next = history.next - 1;
        if (cursor.caughtUp && next > cursor.next) this.send({ type: "dropped", topic, rows: next - cursor.next });
        cursor.next = next;
    }

    private sendRow(topic: string, entry: Entry): void {
        const row = {
            type: "row" as const,
            source: this.source,
            age_ms: performance.now() - entry.received_ms,
        };
        if (TOPICS.find((t) => t.name === topic)!.keep !== "surfaces") {
            this.sendAxes(entry.axes.id, entry);
            this.send({ ...row, axes: entry.axes.id, header: entry.header }, entry.data);
            return;
        }
        const { data, az_deg } = slice(entry, this.az_deg);
        this.sendAxes(entry.axes.id, entry);
        const header = { ...entry.header, shape: [data.length] };
        this.send({ ...row, axes: entry.axes.id, header, az_deg }, data);
    }

    private sendAxes(id: number, entry: Entry): void {
        if (this.axesSent.has(id)) return;
        if (this.axesSent.size >= AXES_REMEMBERED) this.axesSent.clear();
        this.axesSent.add(id);
        this.send({ type: "axes", id, axes: entry.axes.axes });
    }

    private hear(said: FromPage | null): void {
        if (this.gone) return;
        if (!said) this.hangUp("not a request");
        else if (said.type === "ack") this.acknowledge(said.bytes);
        else if (this.mayAsk()) this.obey(said);
        else this.hangUp(`more than ${REQUESTS_PER_S} requests a second`);
    }

    private acknowledge(bytes: number): void {
        if (bytes > this.sent_bytes) return this.hangUp("more was acknowledged than was sent");
        if (bytes <= this.acknowledged_bytes) return;
        this.acknowledged_bytes = bytes;
        this.acknowledged_ms = this.clock();
        this.pump();
    }

    private mayAsk(): boolean {
        const now_ms = this.clock();
        this.credit = Math.min(REQUESTS, this.credit + ((now_ms - this.asked_ms) / 1000) * REQUESTS_PER_S) - 1;
        this.asked_ms = now_ms;
        return this.credit >= 0;
    }

    private hangUp(why: string): void {
        this.leave();
        this.socket.close(1008, why);
    }

    private leave(): void {
        this.gone = true;
        this.want([]);
    }

    private obey(said: FromPage): void {
        if (said.type === "select" && this.sources[said.source]) this.select(said.source);
        if (said.type === "want") this.want(said.topics);
        if (said.type === "direction") this.look(said.az_deg, said.anew);
        this.pump();
    }

    private select(source: number): void {
        const wanted = this.wanted;
        this.want([]);
        this.source = source;
        this.cursors.clear();
        for (const topic of TOPICS) if (topic.always && topic.keep !== "surfaces") this.begin(topic.name);
        this.want(wanted);
    }

    private want(topics: string[]): void {
        const known = topics.filter((name) => TOPICS.some((t) => t.name === name && (!t.always || t.keep === "surfaces")));
        const before = this.wanted;
        this.wanted = [...new Set(known)];
        const source = this.sources[this.source];
        for (const name of this.wanted) {
            if (before.includes(name)) continue;
            source.want(name);
            this.begin(name);
        }
        for (const name of before) {
            if (this.wanted.includes(name)) continue;
            source.release(name);
            this.cursors.delete(name);
        }
    }

    /** Chooses another direction of the surfaces: from the history's beginning (`from_start`), or from now on. */
    private look(az_deg: number, from_start: boolean): void {
        this.az_deg = az_deg;
        if (!from_start) return;
        for (const topic of TOPICS) {
            if (topic.keep === "surfaces" && this.cursors.has(topic.name)) this.begin(topic.name);
        }
    }

    private begin(topic: string): void {
        const history = this.sources[this.source].histories.get(topic)!;
        this.cursors.set(topic, { begun: false, next: history.first, caughtUp: false });
    }
}
