// The page is built into dist/page, with relative addresses: it may be served under any path.
import { defineConfig } from "vite";

export default defineConfig({
    root: "src/page",
    base: "./",
    build: { outDir: "../../dist/page", emptyOutDir: true, target: "es2022", modulePreload: false },
});
