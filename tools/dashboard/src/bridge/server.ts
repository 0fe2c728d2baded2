// SPDX-License-Identifier: GPL-3.0-or-later
// Serves the built page and its WebSockets.
import { createReadStream, statSync } from "node:fs";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import { extname, join, normalize, sep } from "node:path";
import { WebSocketServer, type WebSocket } from "ws";
import { addressOf, type Access } from "./access.js";

const TYPES: Record<string, string> = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
};
const REQUEST_BYTES = 4096; // of a page's request
const PAGES = 64;

export function serve(folder: string, access: Access, opened: (socket: WebSocket) => void): Server {
    const server = createServer((request, response) => answer(folder, access, request, response));
    const sockets = new WebSocketServer({ noServer: true, maxPayload: REQUEST_BYTES, perMessageDeflate: false });
    server.on("upgrade", (request, socket, head) => {
        const refusal = sockets.clients.size >= PAGES ? "too many pages" : access.refusal(request);
        if (refusal !== null) {
            socket.end(`HTTP/1.1 403 Forbidden\r\nConnection: close\r\n\r\n${refusal}\n`);
            return;
        }
        sockets.handleUpgrade(request, socket, head, opened);
    });
    return server;
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
        const path = decodeURIComponent(addressOf(request).pathname);
        const file = normalize(join(folder, path === "/" ? "index.html" : path));
        return file.startsWith(folder + sep) && statSync(file).isFile() ? file : null;
    } catch {
        return null;
    }
}
