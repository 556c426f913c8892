// Where the page's answers come from: one interface, the same for a server and for the page itself.
// The questions and the types of their answers are generated: questions.ts, answers.ts.

import type { Embedded } from "./answers";
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

/** Where answers come from. */
export interface Source {
  /** What is missing because the page is standalone; null if a server answers everything. */
  readonly embedded: Embedded | null;
  ask<Name extends QuestionName>(name: Name, asked: Asked<Name>): Promise<Answer<Name>>;
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

/** Caches answers, so that going back costs nothing. */
export class CachedSource implements Source {
  private readonly answers = new Map<string, Promise<unknown>>();
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
  ask<Name extends QuestionName>(name: Name, asked: Asked<Name>): Promise<Answer<Name>> {
    if (FORGOTTEN.includes(name)) return this.source.ask(name, asked);
    const question = questionText(name, asked);
    let answer = this.answers.get(question) as Promise<Answer<Name>> | undefined;
    if (answer === undefined) {
      answer = this.source.ask(name, asked);
      answer.catch((error: Error) => {
        this.answers.delete(question);
        if (error instanceof ServerGone) this.onFailure?.(error);
      });
    } else {
      this.answers.delete(question);
    }
    this.answers.set(question, answer);
    if (this.answers.size > REMEMBERED) this.answers.delete(this.answers.keys().next().value!);
    return answer;
  }
}

/** The server no longer answers. */
export class ServerGone extends Error {}
