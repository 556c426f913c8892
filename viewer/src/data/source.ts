// Where the page's answers come from: one interface, the same for a server and for the page itself.
// The questions and the types of their answers are generated: questions.ts, answers.ts.

import type { Embedded, Working } from "./answers";
import { PARAMETERS, type Questions } from "./questions";

export type QuestionName = keyof Questions;
export type Asked<Name extends QuestionName> = Questions[Name]["asks"];
export type Answer<Name extends QuestionName> = Questions[Name]["answer"];
/** One of them, with what it asks; its name says which. */
export type Question = { [Name in QuestionName]: { name: Name; asked: Asked<Name> } }[QuestionName];

/** "tile?file=0&device=0&by=line&axis=event&level=0&index=0": as a server reads it, and as a standalone page stores its answer. */
export function questionText<Name extends QuestionName>(name: Name, asked: Asked<Name>): string {
  const given = asked as Record<string, string | number | undefined>;
  const words = PARAMETERS[name]
    .filter((parameter) => given[parameter] !== undefined)
    .map((parameter) => `${parameter}=${encodeURIComponent(given[parameter]!)}`);
  return words.length === 0 ? name : `${name}?${words.join("&")}`;
}

/** Who waits for an answer that takes a while: sees how far it is, and may give up. */
export interface Waiting {
  signal?: AbortSignal;
  onProgress?: (working: Working) => void;
}

/** Where answers come from. */
export interface Source {
  /** What is missing because the page is standalone; null if a server answers everything. */
  readonly embedded: Embedded | null;
  ask<Name extends QuestionName>(name: Name, asked: Asked<Name>, waiting?: Waiting): Promise<Answer<Name>>;
  /** Whether every event of a device is known, not only a selection of moments. */
  isWhole(file: number, device: number): boolean;
  /** The deepest known level of spans; null: as deep as the timeline. */
  spanLevels(file: number, device: number): number | null;
  /** The nearest moment that the cursor can go to. */
  nearestMoment(file: number, device: number, position: number): number;
  /** The nearest moment whose flame graph and segments are known. */
  nearestState(file: number, device: number, position: number): number;
  /** Moments that may be compared; null: all. */
  comparable(file: number, device: number): number[] | null;
}

const REMEMBERED = 400;
// Long answers that are rarely requested again.
const FORGOTTEN: QuestionName[] = ["singles"];

/** An answer, perhaps on its way: several may wait for it. */
class Known {
  private readonly controller = new AbortController();
  private readonly listeners = new Set<(working: Working) => void>();
  private waiting = 0;
  private isThere = false;
  readonly answer: Promise<unknown>;

  constructor(ask: (waiting: Waiting) => Promise<unknown>) {
    this.answer = ask({ signal: this.controller.signal, onProgress: (working) => this.listeners.forEach((listener) => listener(working)) });
    const arrive = () => void (this.isThere = true);
    this.answer.then(arrive, arrive);
  }

  get isGivenUp(): boolean {
    return this.controller.signal.aborted;
  }

  /** It is given up when all have given up that wait for it. */
  join({ signal, onProgress }: Waiting): void {
    this.waiting++;
    if (onProgress !== undefined) this.listeners.add(onProgress);
    signal?.addEventListener("abort", () => {
      if (onProgress !== undefined) this.listeners.delete(onProgress);
      if (--this.waiting === 0 && !this.isThere) this.controller.abort();
    });
  }
}

/** Caches answers, so that going back costs nothing. */
export class CachedSource implements Source {
  private readonly answers = new Map<string, Known>();
  /** Called with the error when a question gets no answer. */
  onFailure: ((error: Error) => void) | null = null;
  constructor(private readonly source: Source) {}

  get embedded() {
    return this.source.embedded;
  }
  isWhole(file: number, device: number): boolean {
    return this.source.isWhole(file, device);
  }
  spanLevels(file: number, device: number): number | null {
    return this.source.spanLevels(file, device);
  }
  nearestMoment(file: number, device: number, position: number): number {
    return this.source.nearestMoment(file, device, position);
  }
  nearestState(file: number, device: number, position: number): number {
    return this.source.nearestState(file, device, position);
  }
  comparable(file: number, device: number): number[] | null {
    return this.source.comparable(file, device);
  }
  /** What is behind the answers has changed. */
  forget(): void {
    this.answers.clear();
  }
  ask<Name extends QuestionName>(name: Name, asked: Asked<Name>, waiting: Waiting = {}): Promise<Answer<Name>> {
    if (FORGOTTEN.includes(name)) return this.said(this.source.ask(name, asked));
    const question = questionText(name, asked);
    let known = this.answers.get(question);
    if (known === undefined || known.isGivenUp) {
      known = new Known((wait) => this.source.ask(name, asked, wait));
      const made = known;
      void this.said(made.answer).catch(() => {
        if (this.answers.get(question) === made) this.answers.delete(question);
      });
    } else {
      this.answers.delete(question);
    }
    known.join(waiting);
    this.answers.set(question, known);
    if (this.answers.size > REMEMBERED) this.answers.delete(this.answers.keys().next().value!);
    return known.answer as Promise<Answer<Name>>;
  }
  /** The same answer: where there can be no other any more, the page is told. */
  private said<Value>(answer: Promise<Value>): Promise<Value> {
    answer.catch((error: Error) => error instanceof Gone && this.onFailure?.(error));
    return answer;
  }
}

/** What the page shows is gone: the page says so once, whoever asked. */
export class Gone extends Error {}
