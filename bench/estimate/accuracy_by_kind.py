"""How exact predictions of unseen programs were, by kind of program, as a table for the documents.

usage: python bench/estimate/accuracy_by_kind.py

Reads the predictions of all blind tests, which were saved before the truth was recorded, and the
truth (tests/data/estimate/programs.json). Nothing is predicted again, so the table shows what a
user of that day would have got.
"""

from __future__ import annotations

import statistics
import sys
from collections import defaultdict

from estimate_programs import read_programs

FAMILIES = {
    "language models: Trainer, accelerate, Lightning, plain loops": (
        *("HF Trainer", "accelerate", "Lightning", "plain loop", "sequence to sequence"),
        *("preference training", "linear attention", "state space", "transformer encoder"),
        *("embeddings", "retrieval", "distillation", "8-bit optimizer", "own optimizer"),
    ),
    "LoRA, prompt tuning, quantized weights, pruning": (
        *("LoRA", "prompt tuning", "quantised weights", "quantisation-aware training", "pruning"),
    ),
    "generation, serving, evaluation": ("generation", "serving", "evaluation"),
    "mixture of experts": ("mixture of experts",),
    "image classification, contrastive, video, vision-language": (
        *("image classification", "contrastive", "video", "vision-language", "metric learning"),
        *("DataLoader workers", "multi-task", "keypoints", "weight averaging", "sharpness-aware"),
    ),
    "detection": ("detection",),
    "segmentation, registration, super-resolution, optical flow": (
        *("segmentation", "registration", "super-resolution", "optical flow", "style transfer"),
        *("stereo",),
    ),
    "diffusion, GANs, flows, autoencoders": (
        *("diffusion", "GAN", "flow", "autoencoder", "autoregressive images"),
        *("energy-based model", "masked image generation"),
    ),
    "speech and audio": ("speech", "audio generation"),
    "recurrent networks, time series": ("recurrent", "time series"),
    "graphs, points, molecules, radiance fields": (
        *("graph network", "point cloud", "molecules", "protein structure", "radiance field"),
    ),
    "recommenders, tables": ("recommender", "tabular"),
    "reinforcement learning, meta-learning, evolution": (
        *("reinforcement learning", "meta-learning", "hypernetwork", "evolution strategies"),
    ),
    "torch.compile, CUDA graphs, torch.func": ("torch.compile", "CUDA graphs", "torch.func"),
    "L-BFGS, second order, Gaussian processes, physics, linear algebra": (
        *("LBFGS", "second order", "Gaussian process", "physics", "linear algebra"),
        *("operator learning", "neural ODE", "deep equilibrium", "per-sample gradients"),
    ),
    "allocator settings, out of memory": (
        *("allocator settings", "expandable segments", "out of memory"),
    ),
}
ALLOCATED_PCT, RESERVED_PCT = 2.0, 5.0
SHOWN_PCT = 0.1


def errors() -> dict[str, list[tuple[float, float] | None]]:
    """By kind: both errors of each program in percent, None if it was not predicted."""
    found: dict[str, list[tuple[float, float] | None]] = defaultdict(list)
    for program in read_programs("all"):
        predicted, true = program.get("prediction"), program.get("truth")
        if predicted is None or true is None:
            continue
        if true["exit_code"] != 0:
            continue  # It failed on the GPU, and its peaks are those of a part.
        if "peak_allocated_bytes" not in predicted:
            found[program["kind"]].append(None)
            continue
        off = [
            100 * (predicted[key] - true[key]) / true[key]
            for key in ("peak_allocated_bytes", "peak_reserved_bytes")
        ]
        found[program["kind"]].append((off[0], off[1]))
    return found


def row(family: str, found: list[tuple[float, float] | None]) -> str:
    known = [each for each in found if each is not None]
    cells = [family, str(len(found))]
    for place, limit in ((0, ALLOCATED_PCT), (1, RESERVED_PCT)):
        off = [each[place] for each in known]
        within = sum(abs(each) <= limit for each in off)
        worst = max(off, key=abs)
        median = statistics.median(map(abs, off))
        shown = f"{worst:+.1f} %" if abs(worst) >= SHOWN_PCT else f"under {SHOWN_PCT} %"
        cells += [f"{median:.3f} %", shown, f"{within} of {len(found)}"]
    return f"| {' | '.join(cells)} |"


def main() -> int:
    found = errors()
    listed = {kind for kinds in FAMILIES.values() for kind in kinds}
    if missing := sorted(set(found) - listed):
        print(f"kinds without a row: {', '.join(missing)}", file=sys.stderr)
        return 1
    heads = ["programs", "", "allocated: median", "worst", f"within {ALLOCATED_PCT:.0f} %"]
    heads += ["reserved: median", "worst", f"within {RESERVED_PCT:.0f} %"]
    print(f"| {' | '.join(heads)} |")
    print("|---|---:|---:|---:|---:|---:|---:|---:|")
    for family, kinds in FAMILIES.items():
        of_family = [each for kind in kinds for each in found.get(kind, [])]
        if of_family:
            print(row(family, of_family))
    return 0


if __name__ == "__main__":
    sys.exit(main())
