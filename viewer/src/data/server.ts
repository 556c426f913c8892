// Answers from gpumemprof view, which runs on this machine or at the other end of an ssh tunnel.

import { type Answer, type Asked, type QuestionName, questionText, ServerGone, type Source } from "./source";

/**
 * The token from the address, kept only for this tab and this server and removed from the address, where it would stay
 * in the history, in bookmarks and on every shared screen.
 */
function takeToken(): string {
  const key = "gpumemprof-token";
  const address = new URL(location.href);
  const given = address.searchParams.get("token");
  if (given === null) return sessionStorage.getItem(key) ?? "";
  sessionStorage.setItem(key, given);
  address.searchParams.delete("token");
  history.replaceState(history.state, "", address);
  return given;
}

export class ServerSource implements Source {
  readonly embedded = null;
  private readonly token = takeToken();

  async ask<Name extends QuestionName>(name: Name, asked: Asked<Name>): Promise<Answer<Name>> {
    const question = questionText(name, asked);
    const joint = question.includes("?") ? "&" : "?";
    let response: Response;
    try {
      response = await fetch(`/api/${question}${joint}token=${encodeURIComponent(this.token)}`);
    } catch {
      throw new ServerGone("gpumemprof view no longer answers: start it again and open the URL it prints.");
    }
    if (response.ok) return (await response.json()) as Answer<Name>;
    if (response.headers.get("content-type")?.startsWith("application/json")) {
      throw new Error(((await response.json()) as { error: string }).error);
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
