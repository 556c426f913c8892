"""How large the page about many ranks is, and what it takes to write it.

    python bench/ranks/page_size.py FOLDER [--noisy]

FOLDER holds summaries, for example those that ``bench/ranks/scale.py --folder FOLDER`` leaves. With
--noisy, every figure of every step is replaced by chance, which no compression shortens: the worst
that any job can be. Prints one line of JSON, and exits with 1 if the page exceeds 5 MB.
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import sys
import tempfile
from array import array
from pathlib import Path

from gpumemprof.ranks.page import cells
from gpumemprof.ranks.page.packed import write_html
from gpumemprof.ranks.read import read_ranks
from gpumemprof.ranks.report import make_report
from gpumemprof.ranks.summary import RankSummary

MOST_BYTES = 5_000_000
CARD_BYTES = 140 << 30


def noise(rank: RankSummary, wanted: object = None) -> dict[str, array[int]]:
    chance = random.Random(rank.number)
    columns = {"step": rank.steps}
    for name in cells.METRICS:
        values = [chance.randrange(CARD_BYTES) for _ in rank.steps]
        columns[f"{name}_bytes"] = array("q", values)
    return columns


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--noisy", action="store_true")
    options = parser.parse_args()
    if options.noisy:
        cells.every_column = noise  # type: ignore[assignment]
    report = make_report(read_ranks([str(options.folder)]))
    with tempfile.TemporaryDirectory() as temporary:
        size = write_html(report, str(Path(temporary, "page.html")), is_forced=False)
    own = resource.getrusage(resource.RUSAGE_SELF)
    workers = resource.getrusage(resource.RUSAGE_CHILDREN)
    result = {
        "ranks": sum(len(job.job.ranks) for job in report.jobs),
        "is_noisy": options.noisy,
        "page_bytes": size,
        "cpu_seconds": own.ru_utime + own.ru_stime + workers.ru_utime + workers.ru_stime,
        "most_mib": max(own.ru_maxrss, workers.ru_maxrss) / 1024,
    }
    print(json.dumps(result))
    return 0 if size <= MOST_BYTES else 1


if __name__ == "__main__":
    sys.exit(main())
