// Bundles each page into one file without any external reference: viewer.html and ranks.html in
// python/gpumemprof/data. With --check it only reports whether these files match the sources.
import { createHash } from "node:crypto";
import { readFileSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const here = (name) => fileURLToPath(new URL(name, import.meta.url));
const pages = [
  { name: "viewer.html", script: "src/main.ts", style: "src/style/style.css", shell: "src/page/page.html" },
  { name: "ranks.html", script: "src/ranks/main.ts", style: "src/ranks/ranks.css", shell: "src/ranks/page.html" },
];

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

async function assemble(page) {
  const script = await bundle(page.script);
  const style = await bundle(page.style);
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
  return readFileSync(here(page.shell), "utf8")
    .replace("{{policy}}", () => policy)
    .replace("{{style}}", () => style)
    .replace("{{script}}", () => script);
}

for (const page of pages) {
  const target = here(`../python/gpumemprof/data/${page.name}`);
  const text = await assemble(page);
  if (!process.argv.includes("--check")) {
    writeFileSync(target, text);
    console.log(`${page.name}: ${(text.length / 1024).toFixed(0)} KiB`);
  } else if (readFileSync(target, "utf8") === text) {
    console.log(`${page.name} is what viewer/ gives.`);
  } else {
    console.error(`python/gpumemprof/data/${page.name} is not what viewer/ gives: run npm run build in viewer/.`);
    process.exitCode = 1;
  }
}
