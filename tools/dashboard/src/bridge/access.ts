// SPDX-License-Identifier: GPL-3.0-or-later
// Who may look: on loopback any page that this bridge served itself; elsewhere anyone who has the token.
import { timingSafeEqual } from "node:crypto";
import type { IncomingMessage } from "node:http";

const COOKIE = "sonard_dashboard";
const LOOPBACK = /^(localhost|127(\.\d+){3}|\[::1\])(:\d+)?$/;

export function isLoopback(host: string): boolean {
    return LOOPBACK.test(host) || host === "::1";
}

export class Access {
    constructor(private readonly token: string | null) {}

    /** Null if the request is allowed, otherwise the reason for refusing it. */
    refusal(request: IncomingMessage): string | null {
        if (addressOf(request) === null) return "not a path on this bridge";
        const host = request.headers.host ?? "";
        const origin = request.headers.origin;
        if (origin !== undefined && hostOf(origin) !== host) return "a page of another origin";
        if (this.token === null) return isLoopback(host) ? null : "this bridge answers to loopback names only";
        return this.knowsToken(request) ? null : "open the address with ?token=... once";
    }

    /** The cookie with the token, so that later addresses do not contain it. */
    cookie(request: IncomingMessage): string | null {
        if (this.token === null || !addressOf(request)?.searchParams.has("token")) return null;
        return `${COOKIE}=${this.token}; HttpOnly; SameSite=Strict; Path=/; Max-Age=31536000`;
    }

    private knowsToken(request: IncomingMessage): boolean {
        const cookies = (request.headers.cookie ?? "").split(/;\s*/);
        const kept = cookies.find((c) => c.startsWith(`${COOKIE}=`))?.slice(COOKIE.length + 1);
        const given = addressOf(request)?.searchParams.get("token") ?? kept ?? "";
        const [a, b] = [Buffer.from(given), Buffer.from(this.token!)];
        return a.length === b.length && timingSafeEqual(a, b);
    }
}

/** The requested path and query, or null if they are not valid. */
export function addressOf(request: IncomingMessage): URL | null {
    if (!request.url?.startsWith("/")) return null;
    try {
        return new URL(`http://bridge${request.url}`);
    } catch {
        return null;
    }
}

function hostOf(origin: string): string {
    try {
        return new URL(origin).host;
    } catch {
        return "";
    }
}
