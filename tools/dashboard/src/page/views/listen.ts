// SPDX-License-Identifier: GPL-3.0-or-later
// A beam of the daemon to listen to. A browser makes sound only after the user has asked for it, so that each page is
// silent at first.
import { BEAMS, Playout, Sound } from "../sound.js";
import { button, element, setText } from "../dom.js";
import { choose, settings } from "../settings.js";
import type { Latest } from "../store.js";
import type { Beam } from "../../shared/protocol.js";
import type { Context } from "./view.js";

const OLD_MS = 1000; // messages that the bridge kept from before are not played

interface Player {
    card: AudioContext;
    sound: Sound;
    playout: Playout;
    beam: string; // the name of the one that is played
    run: string;
}

export class ListenPanel {
    readonly root = element("div", { class: "pad" });
    /** Seconds of sound that were given to the sound card. */
    played_s = 0;
    private player: Player | null = null;
    private readonly toggler = button("listen", "listen to a beam of the daemon, or stop (e)", () => this.toggle());
    private readonly beams = element("select", { title: "beam", "aria-label": "beam" });
    private readonly said = element("span", { class: "dim" });
    private listed = "";

    constructor(private readonly context: Context) {
        this.root.append(this.toggler, " ", this.beams, " ", this.said);
        this.beams.hidden = true;
        this.beams.onchange = () => {
            choose({ beam: this.beams.value });
            this.beams.blur();
        };
    }

    wants(): string[] {
        return this.player ? [BEAMS] : [];
    }

    toggle(): void {
        if (this.player) return this.stop();
        this.player = { card: new AudioContext(), sound: new Sound(), playout: new Playout(), beam: "", run: "" };
        this.context.store.heard = (latest) => this.hear(latest);
        this.context.sight.changed();
    }

    stop(): void {
        void this.player?.card.close();
        this.player = null;
        this.context.store.heard = null;
        this.context.store.latest.delete(BEAMS);
        this.context.sight.changed();
    }

    draw(): void {
        setText(this.toggler, this.player ? "stop" : "listen");
        const latest = this.player ? this.context.store.latest.get(BEAMS) : undefined;
        const beams = latest?.header.beams ?? [];
        this.list(beams);
        this.beams.hidden = beams.length < 2;
        setText(this.said, this.text(beams));
    }

    private list(beams: Beam[]): void {
        const names = beams.map(({ name }) => name);
        if (names.join() !== this.listed) this.beams.replaceChildren(...names.map((name) => element("option", { value: name }, [name])));
        this.listed = names.join();
        this.beams.value = beams[chosen(beams)]?.name ?? "";
    }

    private text(beams: Beam[]): string {
        if (!this.player) return "";
        if (this.player.card.state === "suspended") return "the browser waits for a click before it makes sound";
        const beam = beams[chosen(beams)];
        if (!beam) return "no sound comes: the daemon needs beam.az_deg, beam.bearing_deg or beam.track";
        const { card, playout } = this.player;
        const where = beam.az_deg === null ? "no direction" : `at ${beam.az_deg.toFixed(1)}°`;
        const follows = beam.track === null ? "" : `, track ${beam.track} ${beam.track_state}`;
        const breaks = playout.stalls + playout.skips;
        return `${beam.name} ${where}${follows}, ${playout.ahead_s(card.currentTime).toFixed(1)} s ahead${breaks ? `, ${breaks} breaks` : ""}`;
    }

    private hear({ header, data, arrived_ms }: Latest): void {
        const { player } = this;
        const beams = header.beams ?? [];
        const row = chosen(beams);
        if (!player || !beams[row] || header.sample_index === null || performance.now() - arrived_ms > OLD_MS) return;
        if (player.beam !== beams[row].name || player.run !== header.run) player.sound = new Sound();
        if (player.run !== header.run) player.playout = new Playout();
        Object.assign(player, { beam: beams[row].name, run: header.run });
        if (player.card.state !== "running") player.card.resume().catch(() => {}); // browsers suspend it after errors
        const count = header.shape[1];
        const at_s = player.playout.place(player.card.currentTime, header.sample_index, count, header.fs_hz);
        const { samples, rate_hz } = player.sound.take(data.subarray(row * count, (row + 1) * count), header.fs_hz);
        if (at_s === null || !samples.length) return;
        const buffer = player.card.createBuffer(1, samples.length, rate_hz);
        buffer.getChannelData(0).set(samples);
        const source = player.card.createBufferSource();
        source.buffer = buffer;
        source.connect(player.card.destination);
        source.start(at_s);
        this.played_s += count / header.fs_hz;
    }
}

/** The index of the beam that the user has chosen, as long as the daemon has it. */
function chosen(beams: Beam[]): number {
    return Math.max(0, beams.findIndex(({ name }) => name === settings.beam));
}
