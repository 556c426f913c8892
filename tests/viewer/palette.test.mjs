// Everyone can distinguish the groups, and text on them is readable.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, it } from "node:test";
import { VISIONS, ciede2000, contrast, difference } from "./colour.mjs";
import { load } from "./sources.mjs";
import { report, root, snapshot } from "./support.mjs";

const { LIGHT, DARK, blended, inkOn } = await load("ui/palette.ts");
const LEAST = 10;

describe("the measure", () => {
  it("gives the published differences", () => {
    // Pairs from Sharma, Wu and Dalal (2005).
    assert.ok(Math.abs(ciede2000([50, 2.6772, -79.7751], [50, 0, -82.7485]) - 2.0425) < 1e-4);
    assert.ok(Math.abs(ciede2000([50, 2.5, 0], [73, 25, -18]) - 27.1492) < 1e-4);
    assert.ok(Math.abs(ciede2000([2.0776, 0.0795, -1.135], [0.9033, -0.0636, -0.5514]) - 0.9082) < 1e-4);
  });
  it("sees what a colour-blind person does not", () => {
    assert.ok(difference("#3b6fb6", "#8e6bbf", "protan") < LEAST);
  });
});

for (const [name, colors] of [["light", LIGHT], ["dark", DARK]]) {
  describe(`the ${name} palette`, () => {
    // Sources and rounding, with room for one more, and the grey of the rest.
    const chosen = [...colors.slice(0, 10), colors[15]];
    for (const vision of VISIONS) {
      it(`tells all sources apart for ${vision} vision`, () => {
        chosen.forEach((first, at) => {
          for (const second of chosen.slice(at + 1)) {
            const found = difference(first, second, vision);
            assert.ok(found >= LEAST, `${first} and ${second}: ${found.toFixed(1)}`);
          }
        });
      });
    }
    it("lets text on every colour be read", () => {
      for (const color of colors) assert.ok(contrast(color, inkOn(color)) >= 4.5, color);
    });
  });
}

describe("text", () => {
  const css = readFileSync(join(root, "viewer/src/style/base.css"), "utf8");
  for (const block of css.match(/:root[^{]*\{[^}]*\}/g)) {
    const color = Object.fromEntries([...block.matchAll(/--([\w-]+): (#\w{6})/g)].map(([, name, value]) => [name, value]));
    it(`can be read on ${color.surface}`, () => {
      for (const ink of ["text", "muted", "accent", "danger", "good"]) {
        for (const below of ["surface", "panel"]) assert.ok(contrast(color[ink], color[below]) >= 4.5, `${ink} on ${below}`);
      }
      for (const ink of ["text", "muted"]) assert.ok(contrast(color[ink], color["accent-soft"]) >= 4.5, ink);
    });
  }
  it("can be read on pale boxes of the flame graph", () => {
    for (const [colors, surface] of [[LIGHT, "#ffffff"], [DARK, "#16191f"]]) {
      for (const opacity of [0.3, 0.62]) {
        for (const color of colors) {
          const fill = blended(color, surface, opacity);
          assert.ok(contrast(fill, inkOn(fill)) >= 4.5, fill);
        }
      }
    }
  });
});

describe("sources", () => {
  it("are no more than there are colours for", () => {
    const sources = report(snapshot("mlp_b64_fp32_adam")).devices[0].sources;
    assert.ok(Object.keys(sources).length <= 10, Object.keys(sources).join());
  });
});
