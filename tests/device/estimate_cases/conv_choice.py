"""Fit the trees of `rules/data/conv_choice.json.xz`: which algorithm cuDNN takes on a GPU.

Usage: python conv_choice.py CHOICES.json.gz OUT.json.xz
CHOICES has what cuDNN answered on the card, {"rows": [[convolution, [[engine, bytes], ...]]]}: a
convolution as [batch, inputs, outputs, groups, kernel, stride, padding, dilation, image, is
transposed, output padding, type, has channels last], and the engines of forward, data and weight
(null where it was not asked). A third entry, [allows TF32, is deterministic], gives other settings.
Needs scikit-learn, and cuDNN, which is asked here what it would take without a GPU; no GPU.
"""

from __future__ import annotations

import gzip
import json
import lzma
import sys
from pathlib import Path
from typing import Any, Callable

import numpy as np
from gpumemprof.estimate.cards import find_card
from gpumemprof.estimate.rules.convolution import choice, cudnn, gpu_engines
from gpumemprof.estimate.rules.convolution.computed import as_computed
from gpumemprof.estimate.rules.convolution.shape import DTYPES, KINDS, Convolution
from sklearn.ensemble import RandomForestClassifier
from sklearn.tree import DecisionTreeRegressor

TREES, LEAVES, SIZE_LEAVES = 5, 1200, 600


def named(sizes: list[Any]) -> Convolution:
    *numbers, kernel, stride, padding, dilation, image, is_transposed, more, dtype, is_last = sizes
    return Convolution(
        *numbers,
        tuple(kernel),
        tuple(stride),
        tuple(padding),
        tuple(dilation),
        tuple(image),
        is_transposed,
        DTYPES[dtype],
        bool(is_last),
        tuple(more) if is_transposed and any(more) else (),
    )


def samples(rows: list[Any]) -> dict[str, list[Any]]:
    """By the kind as cuDNN sees it: features, the algorithm, and the parts of a single product."""
    card = find_card("h200")
    found: dict[str, list[Any]] = {kind: [] for kind in KINDS}
    for sizes, answers, *more in rows:
        convolution = named(sizes)
        settings = cudnn.Settings(*more[0]) if more else cudnn.DEFAULT_SETTINGS
        for kind, answer in zip(KINDS, answers):
            plan = cudnn.ask(convolution, kind, card, settings)
            if plan is None or answer is None:
                continue
            engine, size = answer
            computed = as_computed(convolution, kind)
            name = gpu_engines.engine_name(computed.kind, engine)
            parts = None
            if name == gpu_engines.PRODUCT and gpu_engines.is_one_product(computed):
                elements = choice.result_elements(computed)
                parts = size / (elements * gpu_engines.SINGLE_BYTES)
            row = choice.features(convolution, kind, plan, settings)
            found[computed.kind].append((row, name, parts))
    return found


def flat(tree: Any, leaf: Callable[[int], tuple[float, float]]) -> list[float]:
    """As `choice` reads it: a node's lower branch follows it."""
    nodes: list[tuple[float, float, float]] = []

    def add(node: int) -> None:
        index = len(nodes)
        nodes.append((choice.LEAF, 0, 0))
        if tree.children_left[node] < 0:
            nodes[index] = (choice.LEAF, *leaf(node))
            return
        add(tree.children_left[node])
        above = len(nodes)
        add(tree.children_right[node])
        nodes[index] = (int(tree.feature[node]), round(float(tree.threshold[node]), 3), above)

    add(0)
    return [number for node in nodes for number in node]


def forest(found: list[Any]) -> dict[str, Any]:
    rows = np.array([row for row, _, _ in found], dtype=np.float32)
    model = RandomForestClassifier(TREES, max_leaf_nodes=LEAVES, max_features=0.5, random_state=0)
    model.fit(rows, [name for _, name, _ in found])
    choices = []
    for each in model.estimators_:
        counts = each.tree_.value[:, 0]
        shares = counts.max(axis=1) / counts.sum(axis=1)
        best = counts.argmax(axis=1)
        leaf = lambda n, best=best, shares=shares: (int(best[n]), round(float(shares[n]), 2))  # noqa: E731
        choices.append(flat(each.tree_, leaf))
    single = [index for index, (_, _, parts) in enumerate(found) if parts is not None]
    parts = np.array([found[index][2] for index in single])
    sizes = DecisionTreeRegressor(max_leaf_nodes=SIZE_LEAVES, min_samples_leaf=4, random_state=0)
    sizes.fit(rows[single], np.log2(1 + 16 * parts))
    leaves = sizes.apply(rows[single])
    size_tree = flat(sizes.tree_, lambda n: (round(float(np.median(parts[leaves == n])), 3), 1))
    return {"names": list(map(str, model.classes_)), "choices": choices, "sizes": [size_tree]}


def main() -> None:
    source, target = sys.argv[1:3]
    with gzip.open(source) as file:
        found = samples(json.load(file)["rows"])
    text = json.dumps({kind: forest(found[kind]) for kind in KINDS}, separators=(",", ":"))
    Path(target).write_bytes(lzma.compress(text.encode(), preset=9 | lzma.PRESET_EXTREME))


if __name__ == "__main__":
    main()
