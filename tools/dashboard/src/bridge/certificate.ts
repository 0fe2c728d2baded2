// SPDX-License-Identifier: GPL-3.0-or-later
// CURVE certificates as czmq writes them: ZPL, with the keys in Z85 in the section `curve`.
import { readFileSync } from "node:fs";
import { curveKeyPair } from "zeromq";

export interface Keys {
    server: string; // the daemon's public key
    public: string; // the bridge's own
    secret: string;
}

const Z85 = /^[0-9a-zA-Z.\-:+=^!/*?&<>()[\]{}@%$#]{40}$/;

/** The keys in the section `curve` of a certificate's text. Throws where there is no public one. */
export function parseCertificate(text: string, name: string): { public: string; secret: string | null } {
    const keys: Record<string, string> = {};
    let section = "";
    for (const line of text.split(/\r?\n/)) {
        const head = /^([A-Za-z0-9-]+)\s*(#.*)?$/.exec(line);
        if (head) section = head[1];
        const value = /^ {4}(public-key|secret-key)\s*=\s*"?([^"\s]+)"?\s*$/.exec(line);
        if (!value || section !== "curve") continue;
        if (!Z85.test(value[2])) throw new Error(`${name}: ${value[1]} is not 40 characters of Z85`);
        keys[value[1]] = value[2];
    }
    if (!keys["public-key"]) throw new Error(`${name}: there is no public-key in a section 'curve'`);
    return { public: keys["public-key"], secret: keys["secret-key"] ?? null };
}

/** The daemon's certificate, and the bridge's own with its secret key: without one it makes a pair of its own. */
export function readKeys(serverFile: string, ownFile: string | null): Keys {
    const server = parseCertificate(readFileSync(serverFile, "utf8"), serverFile).public;
    if (!ownFile) {
        const pair = curveKeyPair();
        return { server, public: pair.publicKey, secret: pair.secretKey };
    }
    const own = parseCertificate(readFileSync(ownFile, "utf8"), ownFile);
    if (!own.secret) throw new Error(`${ownFile}: there is no secret-key; the bridge's own certificate has one`);
    return { server, public: own.public, secret: own.secret };
}
