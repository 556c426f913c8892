// The part of the address after "#" of the page about ranks: everything needed to restore what is shown.

import type { Shown } from "./matrix";

export const FIGURES: Shown[] = ["peak", "floor", "reserved", "outside", "imbalance"];
const ORDERS = ["mesh", "largest"] as const;
export type Order = (typeof ORDERS)[number];

export interface Kept {
  job: number;
  shown: Shown;
  order: Order;
  /** Keys of rows; null: what fits a screen. */
  unfolded: string[] | null;
}

/** Values that make no sense are ignored. */
export function readKept(hash: string, jobs: number): Kept {
  const given = new URLSearchParams(hash.replace(/^#/, ""));
  const job = Number(given.get("job") ?? 0);
  return {
    job: Number.isInteger(job) && job >= 0 && job < jobs ? job : 0,
    shown: FIGURES.find((name) => name === given.get("figure")) ?? "peak",
    order: ORDERS.find((name) => name === given.get("order")) ?? "mesh",
    unfolded: given.get("open")?.split(",").filter((key) => key !== "") ?? null,
  };
}

export function writeKept({ job, shown, order, unfolded }: Kept): string {
  const words = new URLSearchParams({ figure: shown });
  if (job !== 0) words.set("job", String(job));
  if (order !== "mesh") words.set("order", order);
  if (unfolded !== null) words.set("open", unfolded.join(","));
  return `#${words.toString()}`;
}
