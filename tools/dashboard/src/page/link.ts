// SPDX-License-Identifier: GPL-3.0-or-later
// The connection to the bridge, reopened as long as the page lives.
import { decodeFrame, type FromPage, type ToPage } from "../shared/frames.js";

const RETRY_MS = 1000;
const ACK_BYTES = 128 * 1024;

export class Link {
    open = false;
    private socket: WebSocket | null = null;
    private received = 0;
    private acknowledged = 0;

    /** take gets each frame. opened is called for each new connection, to send what the page wants. */
    constructor(
        private readonly take: (header: ToPage, data: Float32Array) => void,
        private readonly opened: () => void,
    ) {
        this.connect();
    }

    send(request: FromPage): void {
        if (this.open) this.socket!.send(JSON.stringify(request));
    }

    private connect(): void {
        const address = new URL("socket", location.href.replace(/^http/, "ws"));
        address.search = "";
        const socket = new WebSocket(address);
        socket.binaryType = "arraybuffer";
        socket.onopen = () => {
            this.open = true;
            this.received = this.acknowledged = 0;
            this.opened();
        };
        socket.onmessage = (event: MessageEvent<ArrayBuffer>) => this.receive(event.data);
        socket.onclose = () => {
            this.open = false;
            setTimeout(() => this.connect(), RETRY_MS);
        };
        this.socket = socket;
    }

    private receive(frame: ArrayBuffer): void {
        this.received += frame.byteLength;
        const { header, data } = decodeFrame(frame);
        this.take(header, data);
        if (this.received - this.acknowledged < ACK_BYTES && header.type !== "sources") return;
        this.acknowledged = this.received;
        this.send({ type: "ack", bytes: this.received });
    }
}
