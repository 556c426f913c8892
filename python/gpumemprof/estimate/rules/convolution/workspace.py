"""The workspace of a convolution: measured if it was, else as cuDNN answers, else a likely one.

cuDNN's tensor-core kernels read channels last. For other layouts the workspace holds copies of
input, output and weight; the gradient of the weight adds partial sums in single precision.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass

import torch

from gpumemprof.estimate.calibrate.folder import calibration_files
from gpumemprof.estimate.cards import Card
from gpumemprof.estimate.engine.certainty import Certainty
from gpumemprof.estimate.rules.convolution import choice, cudnn, stream_k
from gpumemprof.estimate.rules.convolution.cudnn import DEFAULT_SETTINGS, Settings
from gpumemprof.estimate.rules.convolution.measured import (
    Answer,
    Table,
    load_table,
    shipped_table,
)
from gpumemprof.estimate.rules.convolution.shape import Convolution, Kind
from gpumemprof.estimate.rules.tensors import round_up

__all__ = ["Workspace", "is_native_depthwise", "trial_bytes", "workspace"]

# Beyond this distance in the table, even the most similar convolution says little.
FAR = 3.0
# Below it, an algorithm that only a GPU offers is about as likely as the other one.
CLEAR_SHARE = 0.8
ALIKE_BYTES = 1 << 20


@dataclass(frozen=True)
class Workspace:
    size_bytes: int
    certainty: Certainty
    measured_on: str = ""  # the card, if it is of another architecture
    may_be_bytes: int = 0  # of the other likely algorithm, where the size is a guess


@functools.cache
def _calibrations() -> tuple[Table, ...]:
    """Measurements of the user's own cards."""
    return tuple(load_table(path) for path in calibration_files())


def tables_for(card: Card) -> list[Table]:
    """The measurements of cards of the same architecture, or of the nearest one; own ones first."""
    tables = [*_calibrations(), shipped_table()[0]]
    distances = [_architecture_distance(each.capability, card.capability) for each in tables]
    return [each for each, far in zip(tables, distances) if far == min(distances)]


def _measured(convolution: Convolution, kind: Kind, card: Card) -> Workspace | None:
    """If this very convolution was measured on a card of the same architecture.

    Partial sums depend on the number of multiprocessors: what another card needed is only likely.
    """
    for table in tables_for(card):
        size = table.exact(convolution, kind)
        if size is not None and table.capability == card.capability:
            is_alike = table.multiprocessors == card.multiprocessors
            return Workspace(size, "exact" if is_alike else "fitted")
    return None


def _most_likely(convolution: Convolution, kind: Kind, card: Card) -> tuple[Answer, Table] | None:
    """What the most similar measured convolutions say, and on which card they were measured."""
    answers = [(table.likely(convolution, kind), table) for table in tables_for(card)]
    found = [(answer, table) for answer, table in answers if answer is not None]
    return min(found, key=lambda each: each[0].distance, default=None)


def _architecture_distance(one: tuple[int, int], other: tuple[int, int]) -> float:
    return abs((one[0] - other[0]) + (one[1] - other[1]) / 10)


def is_native_depthwise(convolution: Convolution) -> bool:
    """Whether torch's own kernels compute it; they take no workspace.

    Torch has cuDNN compute them with channels last, and in half precision where cuDNN's kernels
    were found to be faster.
    """
    each = convolution
    is_depthwise = each.groups > 1 and each.groups == each.channels
    if not is_depthwise or each.is_transposed or each.outputs % each.channels:
        return False
    if each.is_channels_last:
        return False
    if len(each.image) == 3 or each.dtype != torch.float16:
        return True
    is_line = len(each.image) == 1
    height, width = 1 if is_line else each.image[0], each.image[-1]
    stride = (1, *each.stride) if is_line else each.stride
    kernel = (1, *each.kernel) if is_line else each.kernel
    if each.channels < 32 or any(step != 1 for step in each.dilation):
        return True
    if stride[0] != stride[1] and height != 1:
        return True
    if height == 1 and stride[1] == 1:
        return False
    if kernel[0] != kernel[1] or kernel[1] not in (1, 3, 5) or width < 7:
        return True
    return stride[1] != 1 and not _is_faster_with_stride_2(each, kernel[1], stride[1], width)


def _is_faster_with_stride_2(
    convolution: Convolution, kernel: int, stride: int, width: int
) -> bool:
    batch, channels = convolution.batch, convolution.channels
    if stride != 2:
        return False
    if batch == 1:
        return kernel != 1 or width <= 28
    if kernel == 1:
        return batch <= 16 and channels >= 128 and width <= 7
    return channels >= 512 or (channels >= 256 and width >= 28)


def _half_depthwise_bytes(convolution: Convolution, kind: Kind) -> int | None:
    """Of cuDNN's own depthwise kernels, which it offers only with a GPU; None for other shapes."""
    each = convolution
    is_half = each.dtype in (torch.float16, torch.bfloat16)
    is_plain = len(each.image) == 2 and len(set(each.kernel)) == 1 and set(each.dilation) == {1}
    if not (each.groups > 1 and each.groups == each.channels == each.outputs and is_half):
        return None
    if not is_plain or each.is_transposed or each.kernel[0] not in (3, 5, 7):
        return None
    if kind != "weight":
        return 0
    if not each.is_channels_last:
        is_small = set(each.stride) == {1} and max(each.image) <= 112
        return 0 if is_small else None
    return each.batch * round_up(each.channels, 32) * math.prod(each.kernel) * 32


@functools.lru_cache(maxsize=16384)
def workspace(
    convolution: Convolution, kind: Kind, card: Card, settings: Settings = DEFAULT_SETTINGS
) -> Workspace:
    """What cuDNN allocates for a convolution on a card."""
    if is_native_depthwise(convolution):
        return Workspace(0, "exact")
    if settings == DEFAULT_SETTINGS:  # those of the measurements
        measured = _measured(convolution, kind, card)
        if measured is not None:
            return measured
    if (plan := cudnn.ask(convolution, kind, card, settings)) is None:
        return _without_cudnn(convolution, kind, card)
    if card.capability == choice.CAPABILITY:
        return _chosen(convolution, kind, plan, card, settings)
    if convolution.is_matrix_product and _is_left_to_cublas(convolution, kind, card):
        return _likely(convolution, kind, card)
    return _of_plan(convolution, kind, plan, card)


def _without_cudnn(convolution: Convolution, kind: Kind, card: Card) -> Workspace:
    if (size := _half_depthwise_bytes(convolution, kind)) is not None:
        return Workspace(size, "fitted")
    return _likely(convolution, kind, card)


def _chosen(
    convolution: Convolution, kind: Kind, plan: cudnn.Plan, card: Card, settings: Settings
) -> Workspace:
    """A guess where two algorithms are about as likely, and differ."""
    listed = _of_plan(convolution, kind, plan, card).size_bytes
    chosen = choice.choose(convolution, kind, plan, settings, listed)
    is_clear = chosen.share >= CLEAR_SHARE
    is_alike = abs(chosen.size_bytes - chosen.other_bytes) < ALIKE_BYTES
    if is_clear or is_alike:
        return Workspace(chosen.size_bytes, "fitted")
    return Workspace(chosen.size_bytes, "guess", may_be_bytes=chosen.other_bytes)


def _of_plan(convolution: Convolution, kind: Kind, plan: cudnn.Plan, card: Card) -> Workspace:
    size = plan.workspace_bytes
    if stream_k.is_stream_k(plan):
        size = stream_k.corrected_bytes(convolution, kind, plan, card.multiprocessors)
    return Workspace(size, "fitted")


def _is_left_to_cublas(convolution: Convolution, kind: Kind, card: Card) -> bool:
    """cuDNN considers cuBLAS only if there is a GPU: measurements say whether it is taken."""
    found = _most_likely(convolution, kind, card)
    return found is not None and not found[0].has_copies


def _likely(convolution: Convolution, kind: Kind, card: Card) -> Workspace:
    found = _most_likely(convolution, kind, card)
    if found is None:
        size = convolution.copies_bytes() + convolution.weight_elements() * 4
        return Workspace(size, "guess")
    likely, table = found
    measured_on = "" if table.capability == card.capability else table.card
    is_near = likely.distance <= FAR and not measured_on
    return Workspace(likely.size_bytes, "fitted" if is_near else "guess", measured_on)


def trial_bytes(convolution: Convolution, kind: Kind) -> tuple[int, bool]:
    """The largest workspace that the search of cudnn.benchmark tries; whether it was measured."""
    trials = shipped_table()[1]
    size = trials.exact(convolution, kind)
    if size is not None:
        return size, True
    likely = trials.likely(convolution, kind)
    return (convolution.copies_bytes() if likely is None else likely.size_bytes), False
