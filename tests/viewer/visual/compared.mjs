// Compares a screenshot with a small reference: the mean colour of every 8 by 8 pixels.
//
// Letters whose edges are drawn a little differently, as by the next version of the browser, change such a mean by a few
// steps of 255; a colour that changes or something that moves changes several neighbours by more. References are PNG
// files of a sixty-fourth of the pixels.
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { root } from "../support.mjs";

/** Pixels along the side of a tile. */
const TILE = 8;
/** Of 255, in one of red, green and blue: more than edges of letters differ, less than between two colours of the page. */
const MOST_DIFFERENCE = 14;
/** So many different tiles next to each other, among nine, are a visible change. */
const CLUSTER = 3;

const references = fileURLToPath(new URL("references", import.meta.url));
const results = join(root, "build/results/pictures");
export const isUpdate = process.env.GPUMEMPROF_UPDATE_PICTURES === "1";

/** Runs in a page, which can read and write PNG files: tiles that differ, and pictures of both for people. */
async function compareInPage([shot, reference, tile, mostDifference, cluster]) {
  const imageOf = async (base64) => {
    const image = new Image();
    image.src = `data:image/png;base64,${base64}`;
    await image.decode();
    return image;
  };
  const contextOf = (width, height) => {
    const canvas = document.createElement("canvas");
    [canvas.width, canvas.height] = [width, height];
    return canvas.getContext("2d", { willReadFrequently: true });
  };
  const base64Of = (context) => context.canvas.toDataURL("image/png").split(",")[1];
  const image = await imageOf(shot);
  const whole = contextOf(image.width, image.height);
  whole.drawImage(image, 0, 0);
  const [columns, rows] = [Math.floor(image.width / tile), Math.floor(image.height / tile)];
  const { data } = whole.getImageData(0, 0, image.width, image.height);
  const small = contextOf(columns, rows);
  const means = small.createImageData(columns, rows);
  for (let row = 0; row < rows; row++) {
    for (let column = 0; column < columns; column++) {
      const sum = [0, 0, 0];
      for (let y = row * tile; y < (row + 1) * tile; y++) {
        for (let x = column * tile; x < (column + 1) * tile; x++) {
          for (let part = 0; part < 3; part++) sum[part] += data[4 * (y * image.width + x) + part];
        }
      }
      const at = 4 * (row * columns + column);
      for (let part = 0; part < 3; part++) means.data[at + part] = Math.round(sum[part] / tile ** 2);
      means.data[at + 3] = 255;
    }
  }
  small.putImageData(means, 0, 0);
  const made = base64Of(small);
  if (reference === null) return { made, problem: "there is no reference", difference: null };
  const kept = await imageOf(reference);
  if (kept.width !== columns || kept.height !== rows) return { made, problem: `it is ${columns} by ${rows} tiles, the reference ${kept.width} by ${kept.height}`, difference: null };
  const before = contextOf(columns, rows);
  before.drawImage(kept, 0, 0);
  const old = before.getImageData(0, 0, columns, rows).data;
  const isOther = new Uint8Array(columns * rows);
  for (let at = 0; at < isOther.length; at++) {
    for (let part = 0; part < 3; part++) if (Math.abs(old[4 * at + part] - means.data[4 * at + part]) > mostDifference) isOther[at] = 1;
  }
  const places = [];
  for (let row = 0; row < rows; row++) {
    for (let column = 0; column < columns; column++) {
      if (isOther[row * columns + column] === 0) continue;
      let near = 0;
      for (let y = Math.max(0, row - 1); y <= Math.min(rows - 1, row + 1); y++) {
        for (let x = Math.max(0, column - 1); x <= Math.min(columns - 1, column + 1); x++) near += isOther[y * columns + x];
      }
      if (near >= cluster) places.push([column * tile, row * tile]);
    }
  }
  if (places.length === 0) return { made, problem: null, difference: null };
  // What changed, framed in the new picture.
  whole.strokeStyle = whole.fillStyle = "#ff00ff";
  whole.globalAlpha = 0.45;
  for (const [x, y] of places) whole.fillRect(x, y, tile, tile);
  const [xs, ys] = [places.map(([x]) => x), places.map(([, y]) => y)];
  const where = `x ${Math.min(...xs)} to ${Math.max(...xs) + tile}, y ${Math.min(...ys)} to ${Math.max(...ys) + tile}`;
  return { made, problem: `${places.length} places of ${tile} by ${tile} pixels differ, within ${where}`, difference: base64Of(whole) };
}

/** A page of the browser that compares; it shows nothing. */
export async function comparer(browser) {
  const page = await browser.newPage();
  const compare = (shot, reference) => page.evaluate(compareInPage, [shot.toString("base64"), reference?.toString("base64") ?? null, TILE, MOST_DIFFERENCE, CLUSTER]);
  return {
    compare,
    /** A sentence about what differs from the reference of that name, or null; new pictures are left in build/results/pictures. */
    check: async (name, shot) => {
      const path = join(references, `${name}.png`);
      const { made, problem, difference } = await compare(shot, existsSync(path) ? readFileSync(path) : null);
      if (problem === null) return null;
      if (isUpdate) {
        mkdirSync(dirname(path), { recursive: true });
        writeFileSync(path, Buffer.from(made, "base64"));
        return null;
      }
      mkdirSync(results, { recursive: true });
      writeFileSync(join(results, `${name}.png`), shot);
      if (difference !== null) writeFileSync(join(results, `${name}-difference.png`), Buffer.from(difference, "base64"));
      return `${name}: ${problem}; see build/results/pictures/${name}.png`;
    },
    /** Of a picture that is no reference. */
    reduced: async (shot) => Buffer.from((await compare(shot, null)).made, "base64"),
    close: () => page.close(),
  };
}

/** A screenshot of what no longer changes. */
export async function stillPicture(page) {
  const shoot = () => page.screenshot({ animations: "disabled", caret: "hide" });
  let before = await shoot();
  for (let turn = 0; turn < 40; turn++) {
    await page.evaluate(() => new Promise((resolve) => requestAnimationFrame(() => setTimeout(resolve, 40))));
    const now = await shoot();
    if (now.equals(before)) return now;
    before = now;
  }
  throw new Error("the page does not come to rest");
}
