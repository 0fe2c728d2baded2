// SPDX-License-Identifier: GPL-3.0-or-later
// A bounded number of places that all addresses share: one address alone never keeps the others out.

/** An address's share of the places is counted by its network, because a host has a whole /64 of IPv6. */
export function networkOf(address: string): string {
    const v4 = /(\d+\.){3}\d+$/.exec(address);
    if (v4) return v4[0];
    const [head, tail] = address.split("%")[0].split("::").map((part) => part.split(":").filter(Boolean));
    const zeros = Array<string>(Math.max(0, 8 - head.length - (tail?.length ?? 0))).fill("0");
    return [...head, ...zeros, ...(tail ?? [])].slice(0, 4).join(":");
}

interface Held {
    network: string;
    since_ms: number;
}

export class Places<T> {
    private readonly held = new Map<T, Held>(); // in order of arrival

    /** isIdle: the holder may lose its place to any newcomer. evict ends a holder that loses its place. */
    constructor(
        private readonly count: number,
        private readonly isIdle: (holder: T, since_ms: number) => boolean,
        private readonly evict: (holder: T) => void,
    ) {}

    get taken(): number {
        return this.held.size;
    }

    /** False: there is no place for this address. */
    enter(holder: T, address: string): boolean {
        const network = networkOf(address);
        if (this.held.size >= this.count) {
            const leaver = this.idleOne() ?? this.oneOfTheMost(network);
            if (leaver === undefined) return false;
            this.held.delete(leaver);
            this.evict(leaver);
        }
        this.held.set(holder, { network, since_ms: performance.now() });
        return true;
    }

    leave(holder: T): void {
        this.held.delete(holder);
    }

    private idleOne(): T | undefined {
        return [...this.held].find(([holder, { since_ms }]) => this.isIdle(holder, since_ms))?.[0];
    }

    /** The oldest holder of the network with most places, if that has more than the newcomer's network will have. */
    private oneOfTheMost(newcomer: string): T | undefined {
        const counts = new Map<string, number>();
        for (const { network } of this.held.values()) counts.set(network, (counts.get(network) ?? 0) + 1);
        const [most, count] = [...counts].reduce((best, each) => (each[1] > best[1] ? each : best));
        if (count <= (counts.get(newcomer) ?? 0) + 1) return undefined;
        return [...this.held].find(([, { network }]) => network === most)?.[0];
    }
}
