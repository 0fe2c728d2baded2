// Bundles the bridge into dist/bridge.js, and with --tests every test into dist/tests. The packages that the
// bridge needs while running, zeromq and ws, stay outside.
import { build } from "esbuild";
import { readdirSync, rmSync } from "node:fs";

const common = { bundle: true, platform: "node", format: "esm", target: "node18", packages: "external", logLevel: "warning" };

await build({ ...common, entryPoints: ["src/bridge/main.ts"], outfile: "dist/bridge.js" });
if (process.argv.includes("--tests")) {
    const tests = readdirSync("tests", { recursive: false })
        .filter((name) => !name.includes("."))
        .flatMap((folder) => readdirSync(`tests/${folder}`).map((name) => `tests/${folder}/${name}`))
        .filter((name) => name.endsWith(".ts"));
    rmSync("dist/tests", { recursive: true, force: true }); // tests that are no more would be run
    await build({ ...common, entryPoints: tests, outdir: "dist/tests", outbase: "tests" });
}
