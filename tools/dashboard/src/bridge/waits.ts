// SPDX-License-Identifier: GPL-3.0-or-later
// Why nothing is received from a daemon: libzmq does not report that a peer does not exist or does not admit the
// bridge. The reasons are those of src/net/client.c.
import { connect } from "node:net";
import type { Subscriber } from "zeromq";

const GREETING_MS = 1000;
const MECHANISM_DIFFERS = "speaks CURVE and this bridge does not, or vice versa: --key decides";

export class Waits {
    /** Text to append to the endpoint; empty if no problem is known. */
    why = "";

    constructor(private readonly key: boolean) {}

    /** Call it before the socket connects. */
    follow(socket: Subscriber): void {
        const { events } = socket;
        events.on("close", () => (this.why = "does not answer: nothing listens there"));
        events.on("handshake", () => (this.why = ""));
        events.on("handshake:error:auth", () => this.key && this.say("does not allow this key: its public certificate (NAME.key) must be in its security.allow_readers"));
        events.on("handshake:error:protocol", () => this.say(MECHANISM_DIFFERS));
        events.on("handshake:error:other", ({ address }) => void this.hungUp(address));
    }

    private say(why: string): void {
        this.why = why;
    }

    /** A client without a key is often disconnected before it has read the server's mechanism, so the bridge asks for
     * it separately. */
    private async hungUp(address: string): Promise<void> {
        if (this.key) this.say("hangs up in the handshake: this key connects too often, or the server-key of --key is not its own");
        else if (await greetsWithCurve(address)) this.say(MECHANISM_DIFFERS);
        else this.say("hangs up in the handshake: this user or address has too many connections, or makes them too often");
    }
}

/** ZMTP 3 (ZeroMQ RFC 23): a server that has read the signature and major version sends the name of its mechanism. */
function greetsWithCurve(address: string): Promise<boolean> {
    const match = /^tcp:\/\/(?:\[(.+)\]|([^[\]]+)):(\d+)$/.exec(address);
    if (!match) return Promise.resolve(false);
    return new Promise((done) => {
        const socket = connect({ host: match[1] ?? match[2], port: Number(match[3]), timeout: GREETING_MS });
        let greeting = Buffer.alloc(0);
        socket.on("connect", () => socket.write(Buffer.from([0xff, 0, 0, 0, 0, 0, 0, 0, 0, 0x7f, 3])));
        socket.on("data", (data) => {
            greeting = Buffer.concat([greeting, data]);
            if (greeting.length >= 32) socket.destroy();
        });
        socket.on("timeout", () => socket.destroy());
        socket.on("error", () => socket.destroy());
        socket.on("close", () => done(greeting.toString("latin1", 12, 17) === "CURVE"));
    });
}
