"""Workspaces that were measured on cards, and what they say about other shapes.

A file of measurements is JSON: `environment` says on which card, `rows` has one line for each
convolution: shape, type and layout, batch, and the workspaces of the three kinds. A workspace is
written as a number of bytes, as `c` and the bytes above the copies of input and output with their
channels last, or as `w` and the number of copies of the weight in single precision. The file
that is shipped has the rows by column.
"""

from __future__ import annotations

import functools
import heapq
import json
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from gpumemprof.estimate.calibrate.folder import check_calibration
from gpumemprof.estimate.rules.convolution.columns import rows_of_columns
from gpumemprof.estimate.rules.convolution.shape import KINDS, Convolution, Kind
from gpumemprof.estimate.rules.convolution.shipped import shipped_json

__all__ = ["Answer", "Table", "encoded", "load_table", "shipped_table"]

# Without copies, cuDNN asks for a few pointers at most.
SMALL_BYTES = 1024
NEIGHBOURS = 7


def encoded(convolution: Convolution, size: int) -> str:
    """A workspace as a row has it."""
    copies = convolution.copies_bytes()
    weights = convolution.weight_elements() * 4
    if size > SMALL_BYTES and size >= copies:
        return f"c{size - copies}"
    if size > SMALL_BYTES and size % weights == 0:
        return f"w{size // weights}"
    return str(size)


def _decoded(convolution: Convolution, text: str) -> int:
    if text[0] == "c":
        return convolution.copies_bytes() + int(text[1:])
    if text[0] == "w":
        return convolution.weight_elements() * 4 * int(text[1:])
    return int(text)


def _bits(number: int) -> float:
    """How often a number can be halved, at most three times: kernels load 1, 2, 4 or 8 values."""
    return math.log2(min(8, number & -number))


def _features(convolution: Convolution) -> tuple[float, ...]:
    """What makes two convolutions alike, by weight: sizes, and how they are aligned."""
    area = math.prod(convolution.image)
    return (
        math.log2(convolution.batch),
        math.log2(convolution.channels),
        math.log2(convolution.outputs),
        math.log2(area),
        0.5 * _bits(convolution.channels),
        0.5 * _bits(convolution.outputs),
        0.5 * _bits(area),
        float(convolution.batch == 1),
        math.log2(math.prod(convolution.kernel)),
        2 * math.log2(math.prod(convolution.stride)),
        2.0 * (max(convolution.dilation) > 1),
    )


def _distance(one: tuple[float, ...], other: tuple[float, ...]) -> float:
    return sum([abs(a - b) for a, b in zip(one, other)])


def _category(convolution: Convolution) -> tuple[Any, ...]:
    """Convolutions of different categories are never alike."""
    return (
        convolution.is_transposed,
        len(convolution.image),
        convolution.is_matrix_product,
        convolution.is_pointwise,
        convolution.groups > 1,
        convolution.groups > 1 and convolution.groups == convolution.channels,
    )


@dataclass(frozen=True)
class Answer:
    """What the most similar convolutions say about the workspace of another one."""

    size_bytes: int
    has_copies: bool  # of input and output: then it is not one of cuBLAS
    distance: float


class Row:
    """A measured convolution, and its workspaces."""

    def __init__(self, convolution: Convolution, texts: list[str]) -> None:
        self.convolution = convolution
        self.texts = texts
        self.features = _features(convolution)

    def way(self, kind: Kind) -> str:
        """How cuDNN computes it, as far as the size of the workspace tells."""
        size = self.size(kind)
        if size <= SMALL_BYTES:
            return "nothing"
        if size >= self.convolution.copies_bytes():
            return "copies"
        return "sums by image" if self._sums(size) == self.convolution.batch else "sums"

    def size(self, kind: Kind) -> int:
        return _decoded(self.convolution, self.texts[KINDS.index(kind)])

    def _sums(self, size: int) -> int:
        return size // (self.convolution.weight_elements() * 4)

    def transferred(self, kind: Kind, other: Convolution) -> int:
        """The workspace of another convolution that is computed in the same way."""
        size, way = self.size(kind), self.way(kind)
        if way == "nothing":
            return size
        ratio = other.weight_elements() / self.convolution.weight_elements()
        if way == "copies":
            rest = size - self.convolution.copies_bytes()
            return other.copies_bytes() + (rest if rest <= SMALL_BYTES else int(rest * ratio))
        if way == "sums by image":
            return other.weight_elements() * 4 * other.batch
        return int(size * ratio)


class Table:
    """Measurements of one card."""

    def __init__(self, environment: dict[str, Any], rows: Iterable[str]) -> None:
        self.environment = environment
        self._texts: dict[tuple[str, str], dict[int, str]] = {}
        for row in rows:
            key, setting, batch, texts = row.split(" ", 3)
            self._texts.setdefault((key, setting), {})[int(batch)] = texts
        self._samples: dict[tuple[Any, ...], list[tuple[Convolution, dict[int, str]]]] = {}
        self._rows: dict[tuple[Any, ...], list[Row]] = {}

    @property
    def capability(self) -> tuple[int, int]:
        major, minor = self.environment["capability"]
        return int(major), int(minor)

    @property
    def multiprocessors(self) -> int | None:
        found = self.environment.get("multiprocessors")
        return None if found is None else int(found)

    @property
    def card(self) -> str:
        return str(self.environment["name"])

    def __len__(self) -> int:
        return sum(map(len, self._texts.values()))

    def rows(self) -> Iterator[str]:
        for (key, setting), batches in self._texts.items():
            for batch, texts in batches.items():
                yield f"{key} {setting} {batch} {texts}"

    def exact(self, convolution: Convolution, kind: Kind) -> int | None:
        """The bytes, if this very convolution was measured."""
        batches = self._texts.get((convolution.key(), convolution.setting()), {})
        texts = batches.get(convolution.batch)
        return None if texts is None else _decoded(convolution, texts.split()[KINDS.index(kind)])

    def _by_category(self) -> dict[tuple[Any, ...], list[tuple[Convolution, dict[int, str]]]]:
        """Measured convolutions by category and setting, with their batches."""
        if not self._samples:
            for (key, setting), batches in self._texts.items():
                sample = Convolution.named(key, setting, 1)
                self._samples.setdefault((_category(sample), setting), []).append((sample, batches))
        return self._samples

    def _alike(self, convolution: Convolution) -> list[Row]:
        """Those of the same category and setting, or of the most similar setting."""
        category, setting = _category(convolution), convolution.setting()
        dtype, _, layout = setting.partition("-")
        other = {"bf16": "f16", "f16": "bf16"}.get(dtype, "f32")
        found: list[Row] = []
        for name in (setting, f"{other}-{layout}" if layout else other):
            key = category, name
            if key not in self._rows:
                self._rows[key] = [
                    Row(replace(sample, batch=batch), texts.split())
                    for sample, batches in self._by_category().get(key, [])
                    for batch, texts in batches.items()
                ]
            found = found or self._rows[key]
        return found

    @functools.lru_cache(maxsize=4096)  # noqa: B019 - tables live as long as the process
    def _nearest(self, convolution: Convolution) -> list[tuple[float, int, Row]]:
        features = _features(convolution)
        rows = self._alike(convolution)
        distances = ((_distance(row.features, features), n) for n, row in enumerate(rows))
        return [(far, n, rows[n]) for far, n in heapq.nsmallest(NEIGHBOURS, distances)]

    def likely(self, convolution: Convolution, kind: Kind) -> Answer | None:
        """From the most similar measured ones: they vote, the nearer the louder."""
        votes: dict[str, float] = {}
        nearest: dict[str, Row] = {}
        found = self._nearest(convolution)
        for distance, _, row in found:
            way = row.way(kind)
            votes[way] = votes.get(way, 0.0) + 1 / (0.3 + distance)
            nearest.setdefault(way, row)
        if not votes:
            return None
        way = max(votes, key=votes.__getitem__)
        size = nearest[way].transferred(kind, convolution)
        return Answer(size, way == "copies", found[0][0])


def _tables(found: dict[str, Any]) -> tuple[Table, Table]:
    environment = found["environment"]
    rows = rows_of_columns(found["columns"]) if "columns" in found else found["rows"]
    return Table(environment, rows), Table(environment, found.get("trials", ()))


@functools.cache
def shipped_table() -> tuple[Table, Table]:
    """Measured on an H200: workspaces, and the largest that the search of cudnn.benchmark took."""
    return _tables(shipped_json("conv_h200"))


@functools.cache
def load_table(path: Path) -> Table:
    """A file that `gpumemprof calibrate` wrote.

    Raises:
        InputError: it is not such a file.
    """
    check_calibration(path)
    return _tables(json.loads(path.read_bytes()))[0]
