"""``--fit``: the advice for a predicted run, proven by a second prediction with it applied."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from gpumemprof.estimate.command.answer import failures_text, head_json, peaks_sentence
from gpumemprof.estimate.command.fit.plans import Plan
from gpumemprof.estimate.command.fit.trials import Fitted, Outcome, fit
from gpumemprof.estimate.command.options import Options
from gpumemprof.estimate.command.page import paragraph
from gpumemprof.estimate.command.ranks.running import ranks_sentence
from gpumemprof.estimate.command.units import size
from gpumemprof.estimate.command.verdict import Answer
from gpumemprof.estimate.ranks.world import World

__all__ = ["answer", "as_json", "as_text"]


def answer(options: Options, folder: Path) -> int:
    """Predict, take advice, predict again with it; 0 if the program fits then."""
    fitted = fit(options, folder)
    print(as_json(options, fitted) if options.json else as_text(options, fitted))
    return 0 if fitted.answer is Answer.FITS else 1


def _of_rank(world: World | None) -> str:
    return "" if world is None else f" (rank {world.rank} of {world.size})"


def as_text(options: Options, fitted: Fitted) -> str:
    """For people."""
    verdict = fitted.single.verdict
    rank = _of_rank(fitted.world)
    lines = paragraph(f"{fitted.as_it_is.about(options.name)}{rank}")
    if fitted.as_it_is.room != verdict.room:
        lines += paragraph(f"It {verdict.sentence}", 2)
    lines += failures_text(fitted.single.run.prediction.assumptions)
    lines += paragraph(peaks_sentence(verdict), 2)
    lines += paragraph(ranks_sentence(options), 2)
    if fitted.refusal:
        lines += paragraph(f"The advice: {fitted.refusal}")
    shown = fitted.shown
    if shown is None:
        return "\n".join(lines)
    lines.append("")
    for outcome in fitted.outcomes:
        lines += _outcome_text(outcome)
    lines += ["", "What to change:"]
    for name, how in shown.plan.code:
        lines.append(f"  # {name}")
        lines += [f"  {line}" for line in how.splitlines()]
    return "\n".join(lines)


def _outcome_text(outcome: Outcome) -> list[str]:
    plan, verdict, run = outcome.plan, outcome.verdict, outcome.run
    if verdict is None or run is None:
        lines = paragraph(f"The advice: {plan.title}. {_expected(plan)}".rstrip())
        return lines + paragraph(f"But {outcome.problem}")
    lines = paragraph(f"With {plan.title}, it {verdict.sentence}{_of_rank(outcome.world)}")
    lines += paragraph(f"{peaks_sentence(verdict)} {_expected(plan)}", 2)
    for effect in run.effects:
        lines += paragraph(f"{effect.name}: {effect.what}", 2)
    return lines


def _expected(plan: Plan) -> str:
    if plan.predicted_bytes is None:
        return ""
    return f"The advice expected {size(plan.predicted_bytes)} reserved."


def as_json(options: Options, fitted: Fitted) -> str:
    """For scripts."""
    single, shown = fitted.single, fitted.shown
    plan = None if shown is None else shown.plan
    return json.dumps(
        {
            "schema_version": 1,
            **head_json(single.card, single.run, single.verdict),
            **_rank_json(fitted.world),
            "fit": {
                "limit_bytes": options.fit_bytes,
                "as_it_is": fitted.as_it_is.to_json(),
                "refusal": fitted.refusal or None,
                **_outcome_json(fitted, shown),
                "code": None if plan is None else [{"name": n, "how": h} for n, h in plan.code],
                "tried": [_outcome_json(fitted, outcome) for outcome in fitted.outcomes],
            },
        },
        indent=2,
    )


def _rank_json(world: World | None) -> dict[str, Any]:
    return {} if world is None else {"world_size": world.size, "worst_rank": world.rank}


def _outcome_json(fitted: Fitted, outcome: Outcome | None) -> dict[str, Any]:
    keys = ("remedies", "expected_peak_reserved_bytes", "problem", "applied", "predicted")
    if outcome is None:
        return dict.fromkeys(keys)
    plan, run, verdict = outcome.plan, outcome.run, outcome.verdict
    predicted = None
    if run is not None and verdict is not None:
        predicted = {**head_json(fitted.single.card, run, verdict), **_rank_json(outcome.world)}
    return {
        "remedies": list(plan.names),
        "expected_peak_reserved_bytes": plan.predicted_bytes,
        "problem": outcome.problem or None,
        "applied": None if run is None else [effect.what for effect in run.effects],
        "predicted": predicted,
    }
