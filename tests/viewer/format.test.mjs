// Figures, ticks and the words of a search, without a browser.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { describe, it } from "node:test";
import { load } from "./sources.mjs";

const format = await load("ui/format.ts");
const { parseSearch } = await load("table/search.ts");
const MIB = 1024 ** 2;
const GIB = 1024 ** 3;

describe("ticks", () => {
  it("of bytes are round figures of one unit", () => {
    const texts = (span) => format.byteTicks(span, 8).map(({ text }) => text);
    assert.deepEqual(texts(1.45 * GIB), ["0", "0.2 GiB", "0.4 GiB", "0.6 GiB", "0.8 GiB", "1.0 GiB", "1.2 GiB", "1.4 GiB"]);
    assert.deepEqual(texts(600 * MIB), ["0", "100 MiB", "200 MiB", "300 MiB", "400 MiB", "500 MiB", "600 MiB"]);
    assert.deepEqual(texts(3), ["0", "1 B", "2 B", "3 B"]);
    for (const { value, text } of format.byteTicks(11.3 * GIB, 9)) {
      if (value > 0) assert.ok(Math.abs(parseFloat(text) * GIB - value) < 1, text);
    }
  });
  it("of time read as a clock where they are long", () => {
    assert.equal(format.timeTick(380.4e9, 200e6, 380.6e9), "6:20.4");
    assert.equal(format.timeTick(380e9, 10e9, 400e9), "6:20");
    assert.equal(format.timeTick(3725e9, 5e9, 3800e9), "1:02:05");
    assert.equal(format.timeTick(1.4e9, 200e6, 2e9), "1.4 s");
    assert.equal(format.timeTick(20e6, 20e6, 100e6), "20 ms");
    assert.equal(format.timeStep(300e9, 8), 60e9);
  });
});

describe("figures", () => {
  it("of bytes are those of the report", () => {
    const table = readFileSync(new URL("../data/bytes.tsv", import.meta.url), "utf8").trim().split("\n");
    assert.ok(table.length >= 20);
    for (const line of table) {
      const [value, text] = line.split("\t");
      assert.equal(format.bytes(Number(value)), text);
    }
  });
  it("of a range differ, or say by how much", () => {
    assert.equal(format.byteRange(11.1 * GIB, 11.13 * GIB), "11.1 GiB, varying by 30.7 MiB");
    assert.equal(format.byteRange(GIB, 2 * GIB), "between 1.00 GiB and 2.00 GiB");
  });
  it("are not turned round by what a name contains", () => {
    assert.equal(format.visible("a\u202eb\u2066c\u0007"), "a\\u202eb\\u2066c\\u0007");
    assert.equal(format.visible("größe → 数\n"), "größe → 数\n");
  });
});

describe("a search", () => {
  it("understands sizes and lifetimes, strictly", () => {
    const search = parseSearch("size>=1MiB size<2GiB life>5ms adam");
    assert.equal(search.minSize, MIB);
    assert.equal(search.maxSize, 2 * GIB - 1);
    assert.equal(search.minLifetime, 5e6 + 1);
    assert.equal(search.plain, "adam");
    assert.match(search.understood.join("; "), /size at least 1\.00 MiB; size less than 2\.00 GiB; lifetime more than 5\.00 ms; “adam” in a function/);
    assert.equal(parseSearch("size >= 1 MiB").minSize, MIB);
    assert.equal(parseSearch("size=512").maxSize, 512);
  });
  it("says what it did not understand", () => {
    assert.match(parseSearch("size>=lots").problems[0], /size>=lots is not a size/);
    assert.deepEqual(parseSearch("").understood, []);
  });
  it("knows lines, fields and what is left out", () => {
    const [place, source, not] = parseSearch("train.py:19 source:gradients -linear").words;
    assert.deepEqual([place.file, place.line], ["train.py", 19]);
    assert.deepEqual([source.field, source.text], ["source", "gradients"]);
    assert.ok(not.isExcluded && not.text === "linear");
    assert.match(parseSearch("train.py:19").understood[0], /line 19 of train\.py/);
  });
});
