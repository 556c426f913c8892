// What the tests in a file share: one browser, pages that close, and no error overlooked.
import assert from "node:assert/strict";
import { after, before } from "node:test";
import { openBrowser, openPage, serve, stopAll } from "./support.mjs";

/** A browser for a test file, and servers that are started once. */
export function suite() {
  let browser;
  const servers = new Map();
  before(async () => {
    browser = await openBrowser();
  });
  after(async () => {
    await browser.close();
    for (const server of servers.values()) await (await server).stop();
    stopAll();
  });
  const served = (...files) => {
    const key = files.join("\n");
    if (!servers.has(key)) servers.set(key, serve(...files));
    return servers.get(key);
  };
  const withPage = async (address, body, options = {}) => {
    const page = await openPage(browser, address, options);
    try {
      await body(page);
      assert.deepEqual(page.problems, []);
    } finally {
      await page.close();
    }
  };
  return {
    withPage,
    /** A page on one served recording, or on several. */
    on: async (files, hash, body, options) => withPage((await served(...[files].flat())).url + hash, body, options),
  };
}

/** Waits for a condition in the page. */
export const until = (page, condition, argument) => page.waitForFunction(condition, argument);

/** An answer from the page's own server. */
export const asked = (page, question) =>
  page.evaluate(async (text) => {
    const proof = `&token=${sessionStorage.getItem("gpumemprof-token")}`;
    return (await fetch(`/api/${text}${proof}`)).json();
  }, question);
