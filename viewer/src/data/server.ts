// Answers from gpumemprof view, which runs on this machine or at the other end of an ssh tunnel.

import type { Working } from "./answers";
import { type Answer, type Asked, type QuestionName, questionText, Gone, type Source, type Waiting } from "./source";

/** The recording can no longer be read: it was removed, or is another one now. */
const GONE = 410;

/** These may take a while: the server says how far it is, and is asked again. */
const LONG: QuestionName[] = ["range", "range_flame", "settings", "advice", "together"];

/**
 * The token from the address, kept only for this tab and this server and removed from the address, where it would stay
 * in the history, in bookmarks and on every shared screen.
 */
export function takeToken(): string {
  const key = "gpumemprof-token";
  const address = new URL(location.href);
  const given = address.searchParams.get("token");
  if (given === null) return sessionStorage.getItem(key) ?? "";
  sessionStorage.setItem(key, given);
  address.searchParams.delete("token");
  history.replaceState(history.state, "", address);
  return given;
}

/** What is happening to the recordings that are shown; `generation` numbers what the server has read of them. */
export interface LiveState {
  generation: number;
  /** `unread_bytes`: of a long recording, which takes a while to be read, what was written since. */
  files: { state: "recording" | "quiet" | "ended"; unchanged_seconds: number; unread_bytes?: number }[];
}

/** Where questions go: "/api/", or "/rank/3/api/" for one of the ranks that gpumemprof view shows. */
export function apiPath(page: string): string {
  return `${page.replace(/[^/]*$/, "")}api/`;
}

export class ServerSource implements Source {
  readonly embedded = null;
  private readonly token = takeToken();
  /** Answers of two generations do not fit together: each question names the one that is drawn. */
  generation = 0;

  async state(): Promise<LiveState> {
    return (await this.fetch("state")).json() as Promise<LiveState>;
  }

  async ask<Name extends QuestionName>(name: Name, asked: Asked<Name>, { signal, onProgress }: Waiting = {}): Promise<Answer<Name>> {
    const question = questionText(name, asked);
    if (!LONG.includes(name)) return (await this.fetch(question)).json() as Promise<Answer<Name>>;
    // No timers: a page in the background would be forgotten by the server.
    for (;;) {
      const response = await this.fetch(`${question}${question.includes("?") ? "&" : "?"}waits=1`, signal);
      if (response.status !== 202) return response.json() as Promise<Answer<Name>>;
      onProgress?.((await response.json()) as Working);
    }
  }

  private async fetch(question: string, signal?: AbortSignal): Promise<Response> {
    const joint = question.includes("?") ? "&" : "?";
    let response: Response;
    try {
      response = await fetch(`${apiPath(location.pathname)}${question}${joint}generation=${this.generation}&token=${encodeURIComponent(this.token)}`, signal === undefined ? {} : { signal });
    } catch (error) {
      if (signal?.aborted === true) throw error;
      throw new Gone("gpumemprof view no longer answers: start it again and open the URL it prints.");
    }
    if (response.ok) return response;
    if (response.headers.get("content-type")?.startsWith("application/json")) {
      const { error } = (await response.json()) as { error: string };
      throw response.status === GONE ? new Gone(error) : new Error(error);
    }
    throw new Error(await response.text());
  }
  isWhole(): boolean {
    return true;
  }
  spanLevels(): null {
    return null;
  }
  nearestMoment(_file: number, _device: number, position: number): number {
    return position;
  }
  nearestState(_file: number, _device: number, position: number): number {
    return position;
  }
  comparable(): null {
    return null;
  }
}
