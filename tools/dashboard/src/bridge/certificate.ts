// SPDX-License-Identifier: GPL-3.0-or-later
// CURVE certificates in the form of czmq, which sonar-keys makes: ZPL, with the keys in Z85 in the section `curve`.
import { readFileSync } from "node:fs";

export interface Keys {
    server: string; // the daemon's public key
    public: string; // the bridge's own
    secret: string;
}

const Z85 = /^[0-9a-zA-Z.\-:+=^!/*?&<>()[\]{}@%$#]{40}$/;

type Certificate = Partial<Record<"public-key" | "secret-key" | "server-key", string>>;

/** The keys in the section `curve` of a certificate's text. */
export function parseCertificate(text: string, name: string): Certificate {
    const keys: Certificate = {};
    let section = "";
    for (const line of text.split(/\r?\n/)) {
        const head = /^([A-Za-z0-9-]+)\s*(#.*)?$/.exec(line);
        if (head) section = head[1];
        const value = /^ {4}((?:public|secret|server)-key)\s*=\s*"?([^"\s]+)"?\s*$/.exec(line);
        if (!value || section !== "curve") continue;
        if (!Z85.test(value[2])) throw new Error(`${name}: ${value[1]} is not 40 characters of Z85`);
        keys[value[1] as keyof Certificate] = value[2];
    }
    return keys;
}

/** Reads a client's secret certificate, which contains the server's key, as `sonar-keys client` creates it. */
export function readKeys(file: string): Keys {
    const found = parseCertificate(readFileSync(file, "utf8"), file);
    const { "public-key": own, "secret-key": secret, "server-key": server } = found;
    if (own && secret && server) return { server, public: own, secret };
    const missing = (["public-key", "secret-key", "server-key"] as const).filter((name) => !found[name]);
    throw new Error(`${file}: there is no ${missing.join(", ")}; 'sonar-keys client NAME --server SERVER.key' makes such a file`);
}
