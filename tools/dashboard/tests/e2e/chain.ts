// SPDX-License-Identifier: GPL-3.0-or-later
// The real chain: simulator, daemon, bridge and pages in Debian's Chromium. Each test has its own chain, except for
// the browser, which the tests of a file share. Tests wait only for conditions: if simulator and daemon get no
// processor for a while they lose nothing, but are late.
import { execFileSync, spawn, type ChildProcess } from "node:child_process";
import { createSocket } from "node:dgram";
import { chmodSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer, type AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { chromium, type Browser, type BrowserContext, type Page } from "playwright-core";
import { Subscriber } from "zeromq";
import { decode, type Message } from "../../src/shared/protocol.js";

const top = resolve("../..");
const bin = process.env.SONAR_BIN ?? join(top, "build/release/bin");

/** A line of 32 hydrophones that takes little of two cores. */
const CONFIG = `
schema: 1
array: {id: 1, name: test-line, geometry: {line: {sensors: 32, spacing_m: 0.75}}, heading_deg: 30, gain_db: 0ARRAY}
sound_speed_mps: 1500
fs_hz: 4000
ingest: {endpoints: ["ipc://FOLDER/in"], overload: block}
dft: {length: 1024, hop: HOP, window: hann}
cbf: {band_hz: [400, 950], ranges_m: [100, 200, 400]SCAN}
lofar: {band_hz: [100, 950]}
mvdr: {band_hz: [600, 950], length: 512, hop: 256, snapshots: 48MVDR}
output: {endpoint: "ENDPOINT", high_water_mark: 256}
runtime: {threads: 1, backend: cpu}
`;

export const SHIP_DEG = 60;

/** One ship at SHIP_DEG, and what else a test needs. */
const SCENE = `
schema: 1
seed: 3
ambient: {psd_db: 50}
sources:
  - name: ship
    far: {az_deg: ${SHIP_DEG}}
    broadband: {spectrum: white, band_hz: [100, 1600], psd_db: 62}
    tones: [{hz: 300, level_db: 90}]
`;

export interface ChainOptions {
    hop?: number;
    scan?: string; // of the CBF
    mvdr?: string; // more of the section `mvdr`
    simulator?: boolean; // default: yes
    scene?: string;
    array?: string; // more of the section `array`
    config?: string; // more sections
    /** The heading arrives as NMEA: from the simulator, whose scene has an own ship, or from the test. */
    navigation?: "simulator" | "test";
    history_s?: number;
    /** Results over TCP, encrypted, with certificates that sonar-keys makes; the bridge has the reader's. */
    curve?: boolean;
}

export class Chain {
    readonly folder = mkdtempSync(join(tmpdir(), "sonard-dashboard-"));
    address = "";
    daemon: ChildProcess | null = null;
    simulator: ChildProcess | null = null;
    bridge: ChildProcess | null = null;
    private endpoint = `ipc://${this.folder}/out`;
    private keys: string[] = []; // options of the bridge
    private nmea = "";
    private simulated = ["--wait"]; // options of the simulator
    private processes: ChildProcess[] = [];
    private contexts: BrowserContext[] = [];
    private listeners: Subscriber[] = [];

    static async start(options: ChainOptions = {}): Promise<Chain> {
        const chain = new Chain();
        const security = options.curve ? await chain.makeKeys() : "";
        const navigation = options.navigation ? await chain.makeNavigation(options.navigation) : "";
        const config = (CONFIG + security + navigation + (options.config ?? ""))
            .replace(/FOLDER/g, chain.folder)
            .replace("ENDPOINT", chain.endpoint)
            .replace("ARRAY", options.array ?? "")
            .replace("HOP", String(options.hop ?? 1024))
            .replace("MVDR", options.mvdr ?? "")
            .replace("SCAN", options.scan ?? "");
        writeFileSync(join(chain.folder, "config.yaml"), config);
        writeFileSync(join(chain.folder, "scene.yaml"), SCENE + (options.scene ?? ""));
        chain.startDaemon();
        if (options.simulator ?? true) chain.startSimulator();
        await chain.startBridge(options.history_s ?? 600);
        return chain;
    }

    private async makeKeys(): Promise<string> {
        const keys = (...args: string[]) => execFileSync(join(bin, "sonar-keys"), args, { cwd: this.folder });
        keys("server", "sonard");
        keys("client", "display", "stranger", "--server", "sonard.key");
        this.endpoint = `tcp://${ADDRESS}:${await freePort()}`;
        this.keys = ["--key", this.keyOf("display")];
        return `security: {key: sonard.key_secret, allow_readers: [display.key]}\n`;
    }

    private async makeNavigation(by: "simulator" | "test"): Promise<string> {
        const socket = createSocket("udp4");
        const port = await new Promise<number>((found) => socket.bind(0, ADDRESS, () => found(socket.address().port)));
        await new Promise<void>((done) => socket.close(done));
        this.nmea = `udp://${ADDRESS}:${port}`;
        if (by === "simulator") this.simulated.push("--nmea", this.nmea);
        return `navigation: {nmea: "${this.nmea}"}\n`;
    }

    /** Tells the daemon a heading, as instruments do. */
    async tellHeading(heading_deg: number): Promise<void> {
        const body = `GPHDT,${heading_deg.toFixed(1)},T`;
        const sum = [...body].reduce((x, letter) => x ^ letter.charCodeAt(0), 0);
        const sentence = `$${body}*${sum.toString(16).toUpperCase().padStart(2, "0")}\r\n`;
        const { hostname, port } = new URL(this.nmea.replace("udp:", "http:"));
        const socket = createSocket("udp4");
        await new Promise((sent) => socket.send(sentence, Number(port), hostname, sent));
        socket.close();
    }

    /** Another array at the same endpoints. */
    async changeArray(name: string, heading_deg: number): Promise<void> {
        for (const each of [this.simulator!, this.daemon!]) {
            const gone = new Promise((done) => each.once("exit", done));
            each.kill("SIGTERM");
            await gone;
        }
        const file = join(this.folder, "config.yaml");
        const config = readFileSync(file, "utf8").replace("name: test-line", `name: ${name}`).replace("sensors: 32", "sensors: 24");
        writeFileSync(file, config.replace("heading_deg: 30", `heading_deg: ${heading_deg}`));
        this.startDaemon();
        this.startSimulator();
    }

    keyOf(name: string): string {
        return join(this.folder, `${name}.key_secret`);
    }

    startDaemon(): void {
        this.daemon = this.run(join(bin, "sonard"), [join(this.folder, "config.yaml")]);
    }

    startSimulator(): void {
        const files = ["--config", join(this.folder, "config.yaml"), "--scene", join(this.folder, "scene.yaml")];
        this.simulator = this.run(join(bin, "sonar-sim"), [...files, ...this.simulated, "--rate", "realtime", "--duration", "0"]);
    }

    async startBridge(history_s: number): Promise<void> {
        const listen = this.address ? new URL(this.address).host : `${ADDRESS}:0`;
        [this.bridge, this.address] = await this.makeBridge(listen, history_s, this.keys);
    }

    /** Starts another bridge in addition to the chain's own; returns its address. */
    async anotherBridge(keys: string[]): Promise<string> {
        return (await this.makeBridge(`${ADDRESS}:0`, 600, keys))[1];
    }

    private async makeBridge(listen: string, history_s: number, keys: string[]): Promise<[ChildProcess, string]> {
        const options = ["--listen", listen, "--history", String(history_s), ...keys, this.endpoint];
        const bridge = this.run(process.execPath, ["dist/bridge.js", ...options]);
        return [bridge, await announced(bridge)];
    }

    /** A page of its own; what it would report as an error fails the test. */
    async open(settings: Record<string, unknown> = {}, width = 1280, height = 720, address = this.address): Promise<Page> {
        const context = await (await openBrowser()).newContext({ viewport: { width, height } });
        this.contexts.push(context);
        const page = await context.newPage();
        page.on("pageerror", (error) => console.error(`page: ${error.stack}`));
        page.on("pageerror", () => (process.exitCode = 1));
        await page.addInitScript((kept) => localStorage.setItem("sonard-dashboard", kept), JSON.stringify(settings));
        page.setDefaultTimeout(1000 * PATIENCE_S);
        await page.goto(address);
        return page;
    }

    /** Messages of a topic by their window, as a separate reader receives them. */
    listen(...topics: string[]): Map<number, Message> {
        const messages = new Map<number, Message>();
        const socket = new Subscriber({ linger: 0 });
        socket.connect(this.endpoint);
        socket.subscribe(...topics);
        this.listeners.push(socket);
        void (async () => {
            try {
                for await (const parts of socket) {
                    const message = decode(parts);
                    messages.set(message.header.window ?? message.header.seq, message);
                }
            } catch {
                // Closed with the chain.
            }
        })();
        return messages;
    }

    async stop(): Promise<void> {
        this.listeners.forEach((socket) => socket.close());
        await Promise.all(this.contexts.map((context) => context.close()));
        const ended = this.processes.filter((p) => p.exitCode === null && p.signalCode === null);
        const gone = ended.map((p) => new Promise((done) => p.once("exit", done)));
        ended.forEach((p) => (p.kill("SIGCONT"), p.kill("SIGTERM")));
        await Promise.all(gone);
        rmSync(this.folder, { recursive: true });
    }

    private run(program: string, args: string[]): ChildProcess {
        const child = spawn(program, args, { stdio: ["ignore", "pipe", "pipe"] });
        child.stderr!.on("data", (text) => process.env.SONAR_TEST_LOG && process.stderr.write(text));
        child.stdout!.resume();
        this.processes.push(child);
        return child;
    }
}

/** The address that a bridge prints for its page. */
export function announced(bridge: ChildProcess): Promise<string> {
    return new Promise<string>((found, failed) => {
        bridge.stdout!.on("data", (text) => {
            const match = /http:\S+/.exec(String(text));
            if (match) found(match[0]);
        });
        bridge.on("exit", () => failed(new Error("the bridge ended")));
    });
}

/** The three parts of a message that a daemon sent (tests/data: each after its length as u32). */
export function recorded(name: string): Buffer[] {
    const file = readFileSync(`tests/data/${name}.msg`);
    const parts: Buffer[] = [];
    for (let at = 0; at < file.length; at += 4 + file.readUInt32LE(at)) parts.push(file.subarray(at + 4, at + 4 + file.readUInt32LE(at)));
    return parts;
}

let browser: Promise<Browser> | null = null;

/** The browser of this process's chains. It gives way to the daemon unless it is to be measured. */
export function openBrowser(polite = true): Promise<Browser> {
    return (browser ??= launch(polite));
}

export async function closeBrowser(): Promise<void> {
    await (await browser)?.close();
    browser = null;
}

/** These tests test the daemon with pages, not a browser that takes its processors. Started by root, Chromium would
 * raise some of its processes above all others, which a watch-keeper's Chromium cannot. */
async function launch(polite: boolean): Promise<Browser> {
    const folder = mkdtempSync(join(tmpdir(), "sonard-chromium-"));
    const executablePath = join(folder, "chromium");
    const drop = process.getuid!() === 0 ? "setpriv --bounding-set -sys_nice --inh-caps -sys_nice " : "";
    const nice = polite ? `nice -n 19 ${drop}` : "";
    writeFileSync(executablePath, `#!/bin/sh\nexec ${nice}"\${SONAR_CHROMIUM:-/usr/bin/chromium}" "$@"\n`);
    chmodSync(executablePath, 0o755);
    const launched = await chromium.launch({ executablePath, args: ["--no-sandbox"], timeout: 1000 * PATIENCE_S });
    rmSync(folder, { recursive: true });
    return launched;
}

/** The wanted topics, according to the newest status. */
export function wantedBy(status: Map<number, Message>): string[] {
    const newest = [...status.values()].pop()?.header as unknown as { output: { wanted: string[] } } | undefined;
    return newest?.output.wanted ?? [];
}

/** A loopback address of this process alone, so that the kernel gives its ports to no other process meanwhile. */
const ADDRESS = [127, 1 + ((process.pid >> 16) & 127), (process.pid >> 8) & 255, Math.max(1, process.pid & 255)].join(".");

async function freePort(): Promise<number> {
    const server = createServer().listen(0, ADDRESS);
    await new Promise((done) => server.once("listening", done));
    const { port } = server.address() as AddressInfo;
    await new Promise((done) => server.close(done));
    return port;
}

/** Far longer than anything takes on free processors; on busy ones events are late. */
const PATIENCE_S = 600;

export async function until(what: string, holds: () => Promise<boolean> | boolean, every_ms = 100): Promise<void> {
    const end = Date.now() + 1000 * PATIENCE_S;
    while (!(await holds())) {
        if (Date.now() > end) throw new Error(`after ${PATIENCE_S} s still not: ${what}`);
        await new Promise((done) => setTimeout(done, every_ms));
    }
}

export const sleep = (ms: number) => new Promise((done) => setTimeout(done, ms));

/** Until what the hand chose is drawn: the page draws it with the next frame. */
export async function drawn(page: Page): Promise<void> {
    await page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))");
}

/** Pixels of a panel's picture, [row][column], and the times and angles that they stand for. */
export async function picture(page: Page, panel: string): Promise<Picture> {
    const { data, ...rest } = await page.evaluate((name) => {
        const root = document.querySelector<HTMLElement>(`[data-panel=${name}] .picture`)!;
        const [width, height] = [root.clientWidth, root.clientHeight];
        const context = new OffscreenCanvas(width, height).getContext("2d")!;
        const strip = root.querySelector<HTMLElement>(".strip")!;
        const moved = new DOMMatrix(strip.style.transform).f;
        for (const tile of strip.querySelectorAll("canvas")) context.drawImage(tile, 0, moved + parseFloat(tile.style.top));
        const { data } = context.getImageData(0, 0, width, height);
        const { panels } = (window as unknown as { sonard: { panels: PanelLike[] } }).sonard;
        const { shown, top_ms, pixel_ms } = panels[["cbf", "mvdr", "lofar"].indexOf(name)].geometry();
        let text = ""; // a million numbers in a list would take Chromium most of a minute
        for (let at = 0; at < data.length; at += 4096) text += String.fromCharCode(...data.subarray(at, at + 4096));
        return { width, height, data: btoa(text), shown, top_ms, pixel_ms };
    }, panel);
    return { ...rest, data: Buffer.from(data, "base64") };
}

interface PanelLike {
    geometry(): { shown: { low: number; high: number }; top_ms: number; pixel_ms: number };
}

/** What the cursor reads of the CBF's record at three bearings, `y` pixels below its top. */
export async function readings(page: Page, y: number): Promise<string[]> {
    const box = (await page.locator("[data-panel=cbf] .picture").boundingBox())!;
    const texts: string[] = [];
    for (const share of [0.1, 0.345, 0.8]) {
        await page.mouse.move(box.x + share * box.width, box.y + y);
        await drawn(page);
        await until("the cursor reads a window", async () => /window/.test((await page.textContent("[data-panel=cbf] .readout"))!));
        texts.push((await page.textContent("[data-panel=cbf] .readout"))!);
    }
    return texts;
}

export interface Picture {
    width: number;
    height: number;
    data: Uint8Array; // RGBA
    shown: { low: number; high: number };
    top_ms: number;
    pixel_ms: number;
}

export function rgb(picture: Picture, x: number, y: number): [number, number, number] {
    const at = 4 * (y * picture.width + x);
    return [picture.data[at], picture.data[at + 1], picture.data[at + 2]];
}

/** The line of a time. */
export function lineOf(picture: Picture, utc_ms: number): number {
    return Math.ceil(picture.top_ms / picture.pixel_ms) - 1 - Math.floor(utc_ms / picture.pixel_ms);
}

