// SPDX-License-Identifier: GPL-3.0-or-later
// The bridge between running daemons and pages: subscribes, keeps the last minutes, serves.
import { readFileSync } from "node:fs";
import type { AddressInfo } from "node:net";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import type { ToPage } from "../shared/frames.js";
import { Access } from "./access.js";
import { Client } from "./client.js";
import { parseOptions, USAGE, UsageError, type Options } from "./options.js";
import { serve } from "./server.js";
import { Source } from "./source.js";

const here = dirname(fileURLToPath(import.meta.url));

function version(): string {
    const file = JSON.parse(readFileSync(join(here, "../package.json"), "utf8")) as { version: string };
    return file.version;
}

function start(options: Options): void {
    const clients = new Set<Client>();
    const pumpAll = () => clients.forEach((client) => client.pump());
    const sources = options.sources.map(
        (source) => new Source({ ...source, history_ms: options.history_ms }, pumpAll),
    );
    const describe = () => sources.map((source) => source.describe());

    const server = serve(join(here, "page"), new Access(options.token), (socket) => {
        socket.on("error", () => socket.terminate());
        const client = new Client(socket, sources);
        clients.add(client);
        socket.on("close", () => clients.delete(client));
        client.tell({ type: "hello", version: version(), history_s: options.history_ms / 1000, sources: describe() });
        client.pump();
        return client;
    });
    const each_second = setInterval(() => {
        const header: ToPage = { type: "sources", sources: describe() };
        clients.forEach((client) => client.tick(header));
    }, 1000);
    server.on("error", (error) => {
        console.error(`sonar-dashboard: ${error.message}`);
        if (!server.listening) process.exit(3); // later errors concern single connections
    });
    server.listen(options.port, options.host, () => announce(options, (server.address() as AddressInfo).port));
    for (const signal of ["SIGINT", "SIGTERM"] as const) {
        process.once(signal, () => {
            clearInterval(each_second);
            sources.forEach((source) => source.close());
            process.exit(0);
        });
    }
}

function announce(options: Options, port: number): void {
    const host = options.host.includes(":") ? `[${options.host}]` : options.host;
    const token = options.token === null ? "" : `?token=${options.token}`;
    console.log(`dashboard: http://${host}:${port}/${token}`);
    for (const source of options.sources) console.log(`  shows ${source.endpoint}`);
}

try {
    const options = parseOptions(process.argv.slice(2));
    if (options === "help") process.stdout.write(USAGE);
    else if (options === "version") console.log(`sonar-dashboard ${version()}`);
    else start(options);
} catch (error) {
    console.error(`sonar-dashboard: ${error instanceof Error ? error.message : String(error)}; try --help`);
    process.exitCode = error instanceof UsageError ? 2 : 3;
}
