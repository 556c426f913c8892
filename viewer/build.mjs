// Bundles the viewer into one page without any external reference:
// python/gpumemprof/data/viewer.html. With --check it only reports whether that file matches these
// sources.
import { createHash } from "node:crypto";
import { readFileSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const here = (name) => fileURLToPath(new URL(name, import.meta.url));
const target = here("../python/gpumemprof/data/viewer.html");

async function bundle(entry) {
  const result = await build({
    entryPoints: [here(entry)],
    bundle: true,
    minify: true,
    write: false,
    charset: "utf8",
    format: "iife",
    target: "es2022",
    legalComments: "none",
  });
  return result.outputFiles[0].text.trim();
}

const hash = (text) => `'sha256-${createHash("sha256").update(text).digest("base64")}'`;

const script = await bundle("src/main.ts");
const style = await bundle("src/style/style.css");
// Only this exact script and style may run; the page may connect only to its own server.
const policy = [
  "default-src 'none'",
  `script-src ${hash(script)}`,
  `style-src ${hash(style)}`,
  "connect-src 'self'",
  "img-src data:",
  "base-uri 'none'",
  "form-action 'none'",
].join("; ");
const page = readFileSync(here("src/page/page.html"), "utf8")
  .replace("{{policy}}", () => policy)
  .replace("{{style}}", () => style)
  .replace("{{script}}", () => script);

if (process.argv.includes("--check")) {
  if (readFileSync(target, "utf8") !== page) {
    console.error("python/gpumemprof/data/viewer.html is not what viewer/ gives: run npm run build in viewer/.");
    process.exit(1);
  }
  console.log("viewer.html is what viewer/ gives.");
} else {
  writeFileSync(target, page);
  console.log(`viewer.html: ${(page.length / 1024).toFixed(0)} KiB`);
}
