"""What the kernels of attention allocate beside their results."""

from __future__ import annotations

from typing import Any

import torch

from gpumemprof.estimate.engine.device import Device
from gpumemprof.estimate.rules.table import Call, rule
from gpumemprof.estimate.rules.tensors import divide_up, is_on_card, round_up

__all__: list[str] = []
