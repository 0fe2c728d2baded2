// SPDX-License-Identifier: GPL-3.0-or-later
// The bridge's command line.
import { randomBytes } from "node:crypto";
import { readFileSync } from "node:fs";
import { isLoopback } from "./access.js";
import { readKeys, type Keys } from "./certificate.js";

export const USAGE = `Usage: sonar-dashboard [OPTION]... [[NAME=]ENDPOINT]...
Serves a page that shows what running sonards publish. ENDPOINT is a daemon's output.endpoint
(default tcp://127.0.0.1:5556); the page can show any of those given.

      --listen HOST:PORT    where the page is served (default 127.0.0.1:8088; port 0: any free one)
      --token-file FILE     the page can be opened only with the token in the first line of FILE; without
                            this option a token is made and printed, unless HOST is loopback
      --history SECONDS     time of data kept for pages that are opened later (default 600)
  -k, --key FILE            the bridge's certificate (NAME.key_secret), if sonard uses CURVE;
                            for the endpoints that follow it
  -V, --version             print the version
  -h, --help                print this
`;

export interface Options {
    host: string;
    port: number;
    token: string | null;
    history_ms: number;
    sources: { name: string; endpoint: string; keys: Keys | null }[];
}

/** A mistake on the command line: exit code 2. */
export class UsageError extends Error {}

type Values = Record<string, string>;
const WITH_VALUE = ["--listen", "--token-file", "--history", "--key"];

export function parseOptions(args: readonly string[]): Options | "help" | "version" {
    const values: Values = {};
    const sources: Options["sources"] = [];
    let keys: Keys | null = null;
    for (let i = 0; i < args.length; i++) {
        const arg = args[i] === "-k" ? "--key" : args[i];
        if (arg === "-h" || arg === "--help") return "help";
        if (arg === "-V" || arg === "--version") return "version";
        if (!arg.startsWith("-")) sources.push(parseSource(arg, keys));
        else if (!WITH_VALUE.includes(arg)) throw new UsageError(`'${arg}' is not an option; the options are ${WITH_VALUE.join(", ")}, --version and --help`);
        else if (i + 1 >= args.length) throw new UsageError(`${arg} needs a value`);
        else if (arg === "--key") keys = readKeys(args[++i]);
        else values[arg] = args[++i];
    }
    const { host, port } = parseListen(values["--listen"] ?? "127.0.0.1:8088");
    return {
        host,
        port,
        token: readToken(values["--token-file"], host),
        history_ms: 1000 * parseSeconds(values["--history"] ?? "600"),
        sources: sources.length ? sources : [parseSource("tcp://127.0.0.1:5556", keys)],
    };
}

function parseListen(text: string): { host: string; port: number } {
    const match = /^(\[[0-9a-fA-F:]+\]|[^:[\]]+):(\d{1,5})$/.exec(text);
    if (!match || Number(match[2]) > 65535)
        throw new UsageError(`--listen needs HOST:PORT, such as 127.0.0.1:8088 or [::1]:8088, not '${text}'`);
    return { host: match[1].replace(/^\[|\]$/g, ""), port: Number(match[2]) };
}

function parseSeconds(text: string): number {
    const value = Number(text);
    if (!/^\d+$/.test(text) || value < 10 || value > 7200)
        throw new UsageError(`--history needs 10 to 7200 whole seconds, not '${text}'`);
    return value;
}

function readToken(file: string | undefined, host: string): string | null {
    if (file === undefined) return isLoopback(host) ? null : randomBytes(18).toString("base64url");
    const token = readFileSync(file, "utf8").split(/\r?\n/)[0].trim();
    if (!/^[\w-]{16,128}$/.test(token))
        throw new UsageError(`${file}: a token is 16 to 128 letters, digits, '-' or '_' in the first line`);
    return token;
}

function parseSource(text: string, keys: Keys | null): Options["sources"][0] {
    const match = /^(?:([^=/]+)=)?((?:tcp|ipc):\/\/.+)$/.exec(text);
    if (!match) throw new UsageError(`'${text}' is not [NAME=]tcp://HOST:PORT or [NAME=]ipc://PATH`);
    return { name: match[1] ?? "", endpoint: match[2], keys: match[2].startsWith("tcp:") ? keys : null };
}
