// A made-up job of 32 ranks, for pictures: a Python program that writes its summaries to a folder.

// Four stages of a pipeline with eight replicas each; sequences differ from step to step, one rank
// gets longer ones from step 70 on, and another one fails.
export const JOB = `
import random, sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from ranks.made_ranks import GIB, MIB, START_NS, made_rank, write_ranks
chance = random.Random(3)
steps = [1 + 0.12 * chance.random() for _ in range(120)]
ranks = []
for rank in range(32):
    stage, replica = divmod(rank, 8)
    peaks = [round((62 - 11 * stage) * GIB * length * (1 + 0.01 * chance.random())) for length in steps]
    if rank == 21:
        peaks = [peak + (18 * GIB if step >= 70 else 0) for step, peak in enumerate(peaks)]
    failed = {"failure_type": "ValueError", "failure_place": "data.py:41 pack"} if rank == 10 else {"failure_type": "DistBackendError", "is_failure_of_peer": True}
    made = made_rank(rank, 32, mesh={"pp": (stage, 4), "dp": (replica, 8)}, peaks=peaks, total_bytes=80 * GIB,
                     job="4711", failure_unix_ns=START_NS + 10**11 + rank, **failed)
    for row in made["held"]["sites"]: row["line"] = "model.py:88 Attention.forward"
    for row in made["held"]["modules"]: row["module"] = "layers.6.attention"
    made["columns"] = {"floor_bytes": [peak // 3 for peak in peaks], "outside_bytes": [500 * MIB] * len(peaks),
                       "reserved_bytes": [max(peaks[: step + 1]) + 20 * MIB for step in range(len(peaks))]}
    ranks.append(made)
write_ranks(Path(sys.argv[2]), ranks, "train")
`;
