// The report on the ranks of jobs, as gpumemprof.ranks.page writes it: bytes; null is what is not known. A place is the
// row of a rank in the columns.

import { takeToken } from "../data/server";

export type MetricName = "peak" | "floor" | "reserved" | "outside";

export interface Said {
  text: string;
  is_detail: boolean;
}

export interface Cells {
  first_steps: number[];
  last_steps: number[];
  step_count: number;
  unit_bytes: number;
  rows: Record<MetricName, (number | null)[][]>;
}

export interface GroupRow {
  name: string;
  coordinates: number[];
  median_peak_bytes: number | null;
  largest_peak_bytes: number | null;
  largest_rank: number | null;
}

export interface RankColumns {
  rank: (number | null)[];
  name: string[];
  host: (string | null)[];
  device: string[];
  card: (string | null)[];
  group: number[];
  total_bytes: (number | null)[];
  limit_bytes: (number | null)[];
  peak_bytes: (number | null)[];
  peak_step: (number | null)[];
  reserved_bytes: (number | null)[];
  outside_bytes: (number | null)[];
  headroom_bytes: (number | null)[];
  retries: (number | null)[];
  recording: (string | null)[];
  path: (string | null)[];
}

export interface Mark {
  place: number;
  step: number | null;
  figure: string;
}

export interface Marks {
  nearest: number | null;
  outliers: Mark[];
  failed_first: Mark | null;
  silent_first: Mark | null;
  also_failed: Mark[];
  followed: number[];
  leaking: number[];
}

export interface More {
  name: string;
  bytes: number;
  more_bytes: number;
  is_at_least: boolean;
}

export interface Worst {
  place: number;
  is_outlier: boolean;
  is_one_of_two: boolean;
  group: string;
  ranks: number;
  bytes: number;
  more_bytes: number;
  sources: More[];
  modules: More[];
  lines: More[];
}

export interface Job {
  title: string;
  nearest: string;
  notes: string[];
  failures: Said[];
  findings: Said[][];
  world_size: number;
  dimensions: string[];
  groups: GroupRow[];
  ranks: RankColumns;
  marks: Marks;
  worst: Worst | null;
  cells: Cells;
}

export interface Report {
  made_unix_ns: number;
  notes: string[];
  jobs: Job[];
}

/** The report, and whether a server can open the recordings. */
export interface Opened {
  report: Report;
  isServed: boolean;
}

async function unpack(packed: Blob): Promise<Report> {
  const stream = packed.stream().pipeThrough(new DecompressionStream("gzip"));
  return (await new Response(stream).json()) as Report;
}

export async function openReport(): Promise<Opened> {
  const element = document.querySelector<HTMLScriptElement>("script[data-section=ranks]");
  if (element !== null) {
    const bytes = Uint8Array.from(atob(element.textContent!), (letter) => letter.charCodeAt(0));
    element.remove();
    return { report: await unpack(new Blob([bytes])), isServed: false };
  }
  let response: Response;
  try {
    response = await fetch(`/api/ranks?token=${encodeURIComponent(takeToken())}`);
  } catch {
    throw new Error("gpumemprof view no longer answers: start it again and open the URL it prints.");
  }
  if (!response.ok) throw new Error(await response.text());
  return { report: await unpack(await response.blob()), isServed: true };
}

/** What ● means: where no rank knows its card, it is the rank with the largest peak. */
export function nearestWords(job: Job): string {
  const place = job.marks.nearest;
  return place !== null && job.ranks.headroom_bytes[place] == null ? "largest peak" : "nearest to its limit";
}
