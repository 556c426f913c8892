"""torchvision's detectors: how many boxes there are depends on values, which are followed.

Anchors and true boxes are known, so that it is known which of them match. What the networks predict
is not: it is taken to be what untrained ones predict. Then proposals are anchors that were moved a
little, in no order, and all classes are equally likely.
"""

from __future__ import annotations

import functools
import math
from types import ModuleType
from typing import Any, Callable

import torch
from torch._subclasses.fake_tensor import FakeTensor

from gpumemprof.estimate.engine.device import Device
from gpumemprof.estimate.engine.fake_mode import outside_modes
from gpumemprof.estimate.engine.value_limits import limits, values_decide
from gpumemprof.estimate.engine.values import known_value, set_known
from gpumemprof.estimate.patches.patcher import Patcher

__all__ = ["DETECTORS"]

Change = Callable[[Patcher, ModuleType, Device], None]
# Focal losses begin with this probability of each class.
_RARE = -math.log((1 - 0.01) / 0.01)
_UNTRAINED = "what the detector predicts was taken to be what an untrained one does"
# Scores are alike where boxes are near each other: waves, as long as this many anchors.
_WAVES = 12
_SHORTEST, _LONGEST = 0.5, 8.0


def _follow(patcher: Patcher, kind: Any, *methods: str) -> None:
    """The values in these methods decide shapes."""
    for name in methods:
        real = getattr(kind, name, None)
        if real is None:
            continue

        @functools.wraps(real)
        def method(*args: Any, real: Any = real, **kwargs: Any) -> Any:
            with values_decide():
                return real(*args, **kwargs)

        patcher.set(kind, name, method)


def _is_unknown(tensor: Any) -> bool:
    return (
        isinstance(tensor, FakeTensor)
        and 0 < tensor.numel() <= limits.floats
        and known_value(tensor) is None
    )


def _assume(device: Device, tensor: FakeTensor, value: torch.Tensor) -> None:
    with outside_modes():
        set_known(tensor, value.reshape(tensor.shape).to(tensor.dtype), assumed=True)
    device.note("value", _UNTRAINED)


def _assume_logits(device: Device, tensor: Any, mean: float, deviation: float) -> None:
    if _is_unknown(tensor):
        with outside_modes():
            generator = torch.Generator().manual_seed(tensor.numel())
            value = torch.empty(tensor.shape).normal_(mean, deviation, generator=generator)
        _assume(device, tensor, value)


def _assume_no_shift(device: Device, tensor: Any) -> None:
    if _is_unknown(tensor):
        with outside_modes():
            value = torch.zeros(tensor.shape)
        _assume(device, tensor, value)


def _set_no_shift(tensor: Any) -> None:
    """In a loss of predicted boxes nothing that matters depends on where they are."""
    if _is_unknown(tensor):
        with outside_modes():
            set_known(tensor, torch.zeros(tensor.shape, dtype=tensor.dtype))


def _scores(boxes: torch.Tensor) -> torch.Tensor:
    """Of boxes of several images: scores that change with their places, not with their sizes."""
    generator = torch.Generator().manual_seed(boxes.numel())
    low, high = boxes.float().unflatten(-1, (2, 2)).unbind(-2)
    size = (high - low).clamp_min(1e-3)
    scale = size.prod(-1, keepdim=True).sqrt()
    features = torch.cat([(low + high) / (2 * scale), size.log()], -1)
    scores = torch.zeros(boxes.shape[:-1])
    for _ in range(_WAVES):
        length, angle, phase = torch.rand(3, generator=generator).tolist()
        frequency = 2 * math.pi / (_SHORTEST * (_LONGEST / _SHORTEST) ** length)
        direction = [math.cos(2 * math.pi * angle), math.sin(2 * math.pi * angle)]
        # Anchors of different sizes and shapes have nothing to do with each other.
        kinds = torch.randn(2, generator=generator).mul(10).tolist()
        factors = torch.tensor([*(frequency * each for each in direction), *kinds])
        images = 10 * torch.rand(len(boxes), 1, generator=generator)
        scores += torch.cos(features @ factors + images + 2 * math.pi * phase)
    return scores


def _anchors(patcher: Patcher, module: ModuleType, device: Device) -> None:
    for name in ("AnchorGenerator", "DefaultBoxGenerator"):
        if hasattr(module, name):
            _follow(patcher, getattr(module, name), "forward")


def _change(patcher: Patcher, kind: Any, name: str, prepare: Callable[..., None]) -> None:
    """Call `prepare` with the arguments of a method first; values in it decide shapes."""
    real = getattr(kind, name, None)
    if real is None:
        return

    @functools.wraps(real)
    def method(*args: Any, **kwargs: Any) -> Any:
        with values_decide():
            prepare(*args, **kwargs)
            return real(*args, **kwargs)

    patcher.set(kind, name, method)


def _boxes(patcher: Patcher, module: ModuleType, device: Device) -> None:
    def assume(coder: Any, shifts: Any, *_: Any, **__: Any) -> None:
        _assume_no_shift(device, shifts)

    def set_known(coder: Any, shifts: Any, *_: Any, **__: Any) -> None:
        _set_no_shift(shifts)

    _change(patcher, module.BoxCoder, "decode", assume)
    _change(patcher, module.BoxCoder, "decode_single", set_known)
    if hasattr(module, "BoxLinearCoder"):
        _change(patcher, module.BoxLinearCoder, "decode", set_known)
        _change(patcher, module.BoxLinearCoder, "decode_single", set_known)


def _proposals(patcher: Patcher, module: ModuleType, device: Device) -> None:
    def prepare(network: Any, boxes: Any, scores: Any, *_: Any, **__: Any) -> None:
        known = known_value(boxes)
        if known is not None and _is_unknown(scores):
            with outside_modes():
                value = _scores(known)
            _assume(device, scores, value)

    kind = module.RegionProposalNetwork
    _change(patcher, kind, "filter_proposals", prepare)
    _follow(patcher, kind, "forward")


def _regions(patcher: Patcher, module: ModuleType, device: Device) -> None:
    def prepare(heads: Any, logits: Any, *_: Any, **__: Any) -> None:
        _assume_logits(device, logits, 0.0, 1.0)

    _change(patcher, module.RoIHeads, "postprocess_detections", prepare)
    _follow(patcher, module.RoIHeads, "forward")


def _one_stage(name: str, mean: float, deviation: float) -> Change:
    def change(patcher: Patcher, module: ModuleType, device: Device) -> None:
        def prepare(model: Any, outputs: Any, *_: Any, **__: Any) -> None:
            for key, found in outputs.items():
                for tensor in found if isinstance(found, (list, tuple)) else [found]:
                    if key == "cls_logits":
                        _assume_logits(device, tensor, mean, deviation)
                    else:
                        _assume_no_shift(device, tensor)

        kind = getattr(module, name)
        _change(patcher, kind, "postprocess_detections", prepare)
        _follow(patcher, kind, "compute_loss")
        if name == "SSD":
            _follow(patcher, kind, "forward")

    return change


_FOLDER = "torchvision.models.detection."
DETECTORS: dict[str, Change] = {
    _FOLDER + "anchor_utils": _anchors,
    _FOLDER + "_utils": _boxes,
    _FOLDER + "rpn": _proposals,
    _FOLDER + "roi_heads": _regions,
    _FOLDER + "retinanet": _one_stage("RetinaNet", _RARE, 0.3),
    _FOLDER + "fcos": _one_stage("FCOS", _RARE, 0.3),
    _FOLDER + "ssd": _one_stage("SSD", 0.0, 1.0),
}
