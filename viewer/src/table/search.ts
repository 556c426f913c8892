// The search: what its words mean. Words that a server searches for itself are sent as they are;
// sizes and lifetimes become bounds. A standalone page searches for the same words.

import * as format from "../ui/format";

export type Field = "any" | "file" | "function" | "source" | "name" | "tag";

export interface Word {
  text: string;
  field: Field;
  isExcluded: boolean;
  /** In "train.py:19". */
  file: string | null;
  line: number | null;
}

export interface Search {
  words: Word[];
  /** As a server reads them. */
  plain: string;
  minSize: number;
  maxSize: number;
  minLifetime: number;
  maxLifetime: number;
  /** What was understood, in words; empty: matches everything. */
  understood: string[];
  /** What looks like a condition but is not one. */
  problems: string[];
}

const FIELDS: Field[] = ["file", "function", "source", "name", "tag"];

export function parseWord(given: string): Word {
  const isExcluded = given.length > 1 && given.startsWith("-");
  let text = (isExcluded ? given.slice(1) : given).toLowerCase();
  let field: Field = "any";
  for (const name of FIELDS) {
    if (!text.startsWith(`${name}:`) || text.length === name.length + 1) continue;
    field = name;
    text = text.slice(name.length + 1);
    break;
  }
  const place = /^(.+):(\d+)$/.exec(text);
  return { text, field, isExcluded, file: place?.[1] ?? null, line: place === null ? null : Number(place[2]) };
}

export function parseWords(text: string): Word[] {
  return text.split(/\s+/).filter((word) => word !== "").slice(0, 16).map(parseWord);
}

const CONDITION = /^(size|life|lifetime)(<=|>=|==|=|<|>)(.*)$/i;

export function parseSearch(text: string): Search {
  const search: Search = {
    words: [], plain: "", minSize: 0, maxSize: Infinity, minLifetime: 0, maxLifetime: Infinity, understood: [], problems: [],
  };
  // "size >= 1 MiB" reads as "size>=1MiB".
  const joined = text.replace(/\b(size|life|lifetime)\s*(<=|>=|==|=|<|>)\s*(\d[\d.]*)\s*([a-zµ]*)/gi, "$1$2$3$4");
  const plain: string[] = [];
  for (const given of joined.split(/\s+/)) {
    if (given === "") continue;
    const condition = CONDITION.exec(given);
    if (condition === null) plain.push(given);
    else addCondition(search, condition, given);
  }
  search.plain = plain.slice(0, 16).join(" ");
  search.words = parseWords(search.plain);
  search.understood.push(...search.words.map(wordMeaning));
  if (plain.length > 16) search.problems.push("only the first 16 words are used");
  return search;
}

function addCondition(search: Search, [, what, sign, rest]: RegExpExecArray, given: string): void {
  const isSize = what!.toLowerCase() === "size";
  const value = isSize ? format.parseSize(rest!) : format.parseDuration(rest!);
  if (value === null) {
    search.problems.push(`${given} is not a ${isSize ? "size (try size>=1MiB)" : "lifetime (try life<5ms)"}`);
    return;
  }
  const [least, most] = isSize ? (["minSize", "maxSize"] as const) : (["minLifetime", "maxLifetime"] as const);
  if (sign === ">") search[least] = Math.max(search[least], value + 1);
  if (sign === ">=") search[least] = Math.max(search[least], value);
  if (sign === "<") search[most] = Math.min(search[most], value - 1);
  if (sign === "<=") search[most] = Math.min(search[most], value);
  if (sign === "=" || sign === "==") {
    search[least] = Math.max(search[least], value);
    search[most] = Math.min(search[most], value);
  }
  const words: Record<string, string> = { ">": "more than", ">=": "at least", "<": "less than", "<=": "at most", "=": "exactly", "==": "exactly" };
  search.understood.push(`${isSize ? "size" : "lifetime"} ${words[sign!]} ${isSize ? format.bytes(value) : format.duration(value)}`);
}

function wordMeaning(word: Word): string {
  const where: Record<Field, string> = {
    any: "in a function, file, source, name or tag", file: "in a file", function: "in a function", source: "in the source", name: "in the tensor's name", tag: "in the tag",
  };
  const text = word.line !== null && (word.field === "any" || word.field === "file") ? `line ${word.line} of ${word.file}` : `“${word.text}” ${where[word.field]}`;
  return (word.isExcluded ? "not " : "") + text;
}

/** "model/train.py" ends with "train.py", "retrain.py" does not. */
function endsWithPath(path: string, end: string): boolean {
  if (!path.endsWith(end)) return false;
  const before = path[path.length - end.length - 1];
  return before === undefined || before === "/" || before === "\\" || end.startsWith("/");
}

/** Whether a frame contains a word; all texts in lower case. */
export function isInFrame(word: Word, name: string, file: string, line: number): boolean {
  const isAny = word.field === "any";
  if ((isAny || word.field === "function") && name.includes(word.text)) return true;
  if (!isAny && word.field !== "file") return false;
  if (file.includes(word.text)) return true;
  return word.line !== null && word.line === line && endsWithPath(file, word.file!);
}

export function isInSource(word: Word, source: string): boolean {
  return (word.field === "any" || word.field === "source") && source.includes(word.text);
}

export function isInTag(word: Word, tag: string): boolean {
  return (word.field === "any" || word.field === "tag") && tag.includes(word.text);
}

export function isInName(word: Word, name: string): boolean {
  return (word.field === "any" || word.field === "name") && name.includes(word.text);
}
