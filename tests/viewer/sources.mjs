// Loads one module of the viewer by itself, for tests that need no browser.
import { createRequire } from "node:module";
import { join } from "node:path";
import { root } from "./support.mjs";

const require = createRequire(new URL("../../viewer/package.json", import.meta.url));

export async function load(name) {
  const { build } = require("esbuild");
  const made = await build({ entryPoints: [join(root, "viewer/src", name)], bundle: true, write: false, format: "esm", target: "es2022" });
  return import(`data:text/javascript;base64,${Buffer.from(made.outputFiles[0].text).toString("base64")}`);
}
