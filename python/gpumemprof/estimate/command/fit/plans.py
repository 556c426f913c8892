"""Which remedies to try, as the advice on a predicted run says."""

from __future__ import annotations

from dataclasses import dataclass

from gpumemprof.estimate.command.program import Blocks
from gpumemprof.estimate.command.units import size
from gpumemprof.read.json_advice import AdviceJson, FitJson, RemedyJson
from gpumemprof.verify import apply

__all__ = ["Plan", "plans", "refusal", "single_remedies", "tried_plans"]

# Each one is another prediction of the program.
_MOST_PLANS = 3


@dataclass(frozen=True)
class Plan:
    """Remedies that the advice expects to be enough."""

    names: tuple[str, ...]
    code: tuple[tuple[str, str], ...]
    """The name of each remedy and what to write for it."""
    predicted_bytes: int | None
    blocks: Blocks | None = None
    """What checkpointing is for; None: all blocks, or it is not among the remedies."""

    @property
    def title(self) -> str:
        """``checkpointing + fused``."""
        return " + ".join(self.names)

    @property
    def cannot_be_applied(self) -> list[str]:
        """Those that only an edit of the program can apply."""
        return [name for name in self.names if name not in apply.NAMES]


def tried_plans(advice: AdviceJson, limit_bytes: int) -> list[Plan]:
    """Those to predict, the cheapest first; the cheapest of all if none can be applied."""
    found = plans(advice["fit"])
    # Rather a remedy that can be proven than a cheaper one that cannot.
    provable = [*found, *single_remedies(advice["remedies"], limit_bytes)]
    applied = {plan.names: plan for plan in reversed(provable) if not plan.cannot_be_applied}
    return list(reversed(applied.values()))[:_MOST_PLANS] if found and applied else found[:1]


def plans(fit: FitJson | None) -> list[Plan]:
    """What the advice proposes, the cheapest first."""
    if fit is None or not fit["is_found"]:
        return []
    found = []
    for entry in [fit, *fit["alternatives"]]:
        code = tuple((line["name"], line["how"]) for line in entry["code"] or ())
        predicted = entry["predicted_peak_reserved_bytes"]
        checkpointed = entry.get("checkpointing")
        blocks = None
        if checkpointed is not None:
            blocks = Blocks(tuple(checkpointed["which"]), checkpointed["of"])
        found.append(Plan(tuple(entry["remedies"] or ()), code, predicted, blocks))
    return [plan for plan in found if plan.names]


def single_remedies(remedies: list[RemedyJson], limit_bytes: int) -> list[Plan]:
    """Remedies that are expected to be enough alone, and can be applied from outside."""
    return [
        Plan((entry["name"],), ((entry["name"], entry["how"]),), reserved)
        for entry in remedies
        if (reserved := entry["predicted_peak_reserved_bytes"]) is not None
        and reserved <= limit_bytes
        and entry["name"] in apply.NAMES
    ]


def refusal(fit: FitJson | None) -> str:
    """Why there is no plan."""
    if fit is None:
        return "no remedy makes it fit"
    if fit["refusal"]:
        return str(fit["refusal"])
    least = fit["least"]
    if least is None:
        return "no remedy makes it fit"
    return (
        f"no set of remedies makes it fit; with {' + '.join(least['remedies'] or ())} it needs "
        + size(least["limit_bytes"])
    )
