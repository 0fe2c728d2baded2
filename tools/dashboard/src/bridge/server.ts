// SPDX-License-Identifier: GPL-3.0-or-later
// Serves the built page and its WebSockets. Anyone who can reach the port may send anything, so errors of a connection
// are handled before anything else is done with it, and everything that it can hold is bounded.
import { createReadStream, statSync } from "node:fs";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import { extname, join, normalize, sep } from "node:path";
import type { Duplex } from "node:stream";
import { WebSocketServer, type WebSocket } from "ws";
import { addressOf, type Access } from "./access.js";
import { Places } from "./places.js";

const TYPES: Record<string, string> = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
};
const REQUEST_BYTES = 4096; // limit of a page's request
const PAGES = 64;
const CONNECTIONS = 256; // limit of connections that are not pages, or not yet
const REQUEST_MS = 60_000; // time limit for a complete request, long enough for a busy processor
const STALLED_MS = 120_000; // time limit without a byte in either direction
const OLD_MS = 5000; // a connection of this age may lose its place to a newcomer
const CLOSE_MS = 2000; // time limit for a page that was told to close

/** What the server needs to know of an open page. */
export interface Page {
    isIdle(): boolean;
}

interface Holder {
    socket: Duplex;
    page: Page | null; // null: its handshake is in progress
}

export function serve(folder: string, access: Access, opened: (socket: WebSocket) => Page): Server {
    const limits = { headersTimeout: REQUEST_MS, requestTimeout: REQUEST_MS, connectionsCheckingInterval: 1000 };
    const server = createServer(limits, (request, response) => answer(folder, access, request, response));
    server.setTimeout(STALLED_MS);
    // ws has the option closeTimeout, but its types do not. Pongs are not sent automatically, because they would queue
    // without a bound.
    const options = { noServer: true, maxPayload: REQUEST_BYTES, perMessageDeflate: false, autoPong: false, closeTimeout: CLOSE_MS };
    const sockets = new WebSocketServer(options);
    const end = (socket: Duplex) => void socket.destroy();
    const connections = new Places<Duplex>(CONNECTIONS, (_, since_ms) => performance.now() - since_ms > OLD_MS, end);
    const pages = new Places<Holder>(PAGES, ({ page }) => page?.isIdle() ?? false, ({ socket }) => end(socket));

    server.on("connection", (socket) => {
        socket.once("close", () => connections.leave(socket));
        if (!socket.remoteAddress || !connections.enter(socket, socket.remoteAddress)) end(socket);
    });
    server.on("upgrade", (request, socket, head) => {
        socket.on("error", () => end(socket));
        const refusal = access.refusal(request);
        if (refusal !== null) return refuse(socket, "403 Forbidden", refusal);
        const holder: Holder = { socket, page: null };
        if (!pages.enter(holder, request.socket.remoteAddress ?? "")) return refuse(socket, "503 Service Unavailable", "too many pages");
        socket.once("close", () => pages.leave(holder));
        connections.leave(socket);
        sockets.handleUpgrade(request, socket, head, (page) => (holder.page = opened(page)));
    });
    return server;
}

/** Sends the reason and does not wait for an answer. */
function refuse(socket: Duplex, status: string, why: string): void {
    socket.once("finish", () => socket.destroy());
    socket.end(`HTTP/1.1 ${status}\r\nConnection: close\r\n\r\n${why}\n`);
}

function answer(folder: string, access: Access, request: IncomingMessage, response: ServerResponse): void {
    const headers: Record<string, string> = {
        "Content-Security-Policy": "default-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:",
        "X-Content-Type-Options": "nosniff",
        "Referrer-Policy": "no-referrer",
        "Cache-Control": "no-cache",
    };
    const refusal = access.refusal(request);
    if (refusal !== null) {
        response.writeHead(403, headers).end(`${refusal}\n`);
        return;
    }
    const cookie = access.cookie(request);
    if (cookie) headers["Set-Cookie"] = cookie;
    const file = fileOf(folder, request);
    if (!file || (request.method !== "GET" && request.method !== "HEAD")) {
        response.writeHead(404, headers).end("not found\n");
        return;
    }
    response.writeHead(200, { ...headers, "Content-Type": TYPES[extname(file)] ?? "application/octet-stream" });
    if (request.method === "HEAD") response.end();
    else createReadStream(file).on("error", () => response.destroy()).pipe(response);
}

/** A file below the folder, or null. */
function fileOf(folder: string, request: IncomingMessage): string | null {
    try {
        const path = decodeURIComponent(addressOf(request)!.pathname);
        const file = normalize(join(folder, path === "/" ? "index.html" : path));
        return file.startsWith(folder + sep) && statSync(file).isFile() ? file : null;
    } catch {
        return null;
    }
}
