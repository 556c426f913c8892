// A recording that a program is still writing: what the page says about that, and when it grows.

import type { LiveState, ServerSource } from "../data/server";
import { el } from "../ui/dom";
import * as format from "../ui/format";

const ASK_MS = 1000;

export class LiveStatus {
  readonly element = el("span", { class: "live", role: "status", "data-testid": "live" });
  private wasRecording = false;

  /** Says what is happening; nothing about recordings that were over when they were opened. */
  show({ files }: LiveState): void {
    const isRecording = files.some(({ state }) => state === "recording");
    this.wasRecording ||= isRecording;
    this.element.dataset["state"] = isRecording ? "recording" : "over";
    if (!this.wasRecording) return;
    const quiet = files.filter(({ state }) => state === "quiet");
    const unread = files.reduce((bytes, { unread_bytes }) => bytes + (unread_bytes ?? 0), 0);
    if (isRecording) this.element.textContent = unread > 0 ? `● recording… (the last ${format.bytes(unread)} are not shown yet)` : "● recording… (live)";
    else if (quiet.length > 0) {
      const seconds = Math.round(Math.min(...quiet.map(({ unchanged_seconds }) => unchanged_seconds)));
      this.element.textContent = `nothing written for ${seconds} s: the program waits, or was killed`;
    } else this.element.textContent = "the recording has ended";
  }
}

/** Asks every second how the recordings are, as long as one of them may grow. */
export function follow(server: ServerSource, first: LiveState, asked: (state: LiveState) => Promise<void>): void {
  let last = first;
  const ask = async () => {
    try {
      last = await server.state();
      await asked(last);
    } catch {
      // The server says what is wrong when it is asked for something that is to be drawn.
    }
    if (last.files.some(({ state }) => state !== "ended") || last.generation !== server.generation) window.setTimeout(() => void ask(), ASK_MS);
  };
  if (first.files.some(({ state }) => state !== "ended")) window.setTimeout(() => void ask(), ASK_MS);
}
