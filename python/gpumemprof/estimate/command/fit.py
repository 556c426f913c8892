"""``--fit``: the advice for a predicted run, proven by a second prediction with it applied."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from gpumemprof.estimate.command.answer import head_json, peaks_sentence
from gpumemprof.estimate.command.options import Options
from gpumemprof.estimate.command.page import paragraph
from gpumemprof.estimate.command.program import Run, Trial, UnpredictedError, predict
from gpumemprof.estimate.command.progress import Progress
from gpumemprof.estimate.command.single import Single, exit_code, predict_for_card
from gpumemprof.estimate.command.units import size
from gpumemprof.estimate.command.verdict import Answer, Room, Verdict, judge
from gpumemprof.read.json_advice import FitJson
from gpumemprof.verify import apply

__all__ = ["Fitted", "answer", "as_text", "plans", "single_remedies"]


@dataclass(frozen=True)
class Plan:
    """Remedies that the advice expects to be enough."""

    names: tuple[str, ...]
    code: tuple[tuple[str, str], ...]
    """The name of each remedy and what to write for it."""
    predicted_bytes: int | None

    @property
    def title(self) -> str:
        """``checkpointing + fused``."""
        return " + ".join(self.names)

    @property
    def cannot_be_applied(self) -> list[str]:
        """Those that only an edit of the program can apply."""
        return [name for name in self.names if name not in apply.NAMES]


@dataclass(frozen=True)
class Fitted:
    """Everything that ``--fit`` found."""

    single: Single
    as_it_is: Verdict
    """Whether the program fits the size without a remedy."""
    plan: Plan | None
    refusal: str
    """Why there is no plan."""
    run: Run | None
    """The second prediction."""
    verdict: Verdict | None
    problem: str = ""
    """Why there is no second prediction."""


def answer(options: Options, folder: Path) -> int:
    """Predict, take advice, predict again with it; 0 if the program fits then."""
    fitted = _fit(options, folder)
    print(_as_json(options, fitted) if options.json else as_text(options, fitted))
    if fitted.as_it_is.answer is Answer.FITS:
        return 0
    return 1 if fitted.verdict is None else exit_code(fitted.verdict)


def _fit(options: Options, folder: Path) -> Fitted:
    limit = options.fit_bytes or 0
    room = Room.of_size(limit)
    single = predict_for_card(options, folder)
    as_it_is = judge(single.whole.prediction, room)
    if as_it_is.answer is Answer.FITS:
        return Fitted(single, as_it_is, None, "", None, None)
    advice = single.whole.recording.advise(fit=limit)
    found = plans(advice["fit"])
    if not found:
        return Fitted(single, as_it_is, None, _refusal(advice["fit"]), None, None)
    # Rather a remedy that can be proven than a cheaper one that cannot.
    provable = [*found, *single_remedies(advice["remedies"], limit)]
    plan = next((plan for plan in provable if not plan.cannot_be_applied), found[0])
    if plan.cannot_be_applied:
        names = " and ".join(plan.cannot_be_applied)
        problem = f"{names} cannot be applied from outside, so this was not predicted again"
        return Fitted(single, as_it_is, plan, "", None, None, problem)
    (folder / "fit").mkdir()
    trial = Trial(
        options.card,
        limit,
        folder / "fit" / "fit.gmp",
        options.program,
        remedies=plan.names,
        is_captured=True,
    )
    try:
        with Progress(2) as progress:
            progress.show(1, f"with {plan.title}")
            run = predict(options, trial)
    except UnpredictedError as error:
        return Fitted(single, as_it_is, plan, "", None, None, str(error))
    if idle := [effect for effect in run.effects if effect.count == 0]:
        problem = f"{idle[0].name} changed nothing in this program: {idle[0].what}"
        return Fitted(single, as_it_is, plan, "", None, None, problem)
    return Fitted(single, as_it_is, plan, "", run, judge(run.prediction, room))


def plans(fit: FitJson | None) -> list[Plan]:
    """What the advice proposes, the cheapest first."""
    if fit is None or not fit["is_found"]:
        return []
    found = []
    for entry in [fit, *fit["alternatives"]]:
        code = tuple((line["name"], line["how"]) for line in entry["code"] or ())
        predicted = entry["predicted_peak_reserved_bytes"]
        found.append(Plan(tuple(entry["remedies"] or ()), code, predicted))
    return [plan for plan in found if plan.names]


def single_remedies(remedies: list[dict[str, Any]], limit_bytes: int) -> list[Plan]:
    """Remedies that are expected to be enough alone, and can be applied from outside."""
    return [
        Plan((entry["name"],), ((entry["name"], entry["how"]),), reserved)
        for entry in remedies
        if (reserved := entry["predicted_peak_reserved_bytes"]) is not None
        and reserved <= limit_bytes
        and entry["name"] in apply.NAMES
    ]


def _refusal(fit: FitJson | None) -> str:
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


def as_text(options: Options, fitted: Fitted) -> str:
    """For people."""
    verdict = fitted.single.verdict
    lines = paragraph(f"{options.name} {verdict.sentence}")
    lines += paragraph(peaks_sentence(verdict), 2)
    lines += ["", *paragraph(f"As it is, it {fitted.as_it_is.sentence}")]
    if fitted.refusal:
        lines += paragraph(f"The advice: {fitted.refusal}")
    if fitted.plan is None:
        return "\n".join(lines)
    lines.append("")
    if fitted.verdict is not None and fitted.run is not None:
        lines += paragraph(f"With {fitted.plan.title}, it {fitted.verdict.sentence}")
        lines += paragraph(f"{peaks_sentence(fitted.verdict)} {_expected(fitted.plan)}", 2)
        for effect in fitted.run.effects:
            lines += paragraph(f"{effect.name}: {effect.what}", 2)
    else:
        lines += paragraph(f"The advice: {fitted.plan.title}. {_expected(fitted.plan)}".rstrip())
        lines += paragraph(f"But {fitted.problem}")
    lines += ["", "What to change:"]
    for name, how in fitted.plan.code:
        lines.append(f"  # {name}")
        lines += [f"  {line}" for line in how.splitlines()]
    return "\n".join(lines)


def _expected(plan: Plan) -> str:
    if plan.predicted_bytes is None:
        return ""
    return f"The advice expected {size(plan.predicted_bytes)} reserved."


def _as_json(options: Options, fitted: Fitted) -> str:
    plan, run, verdict = fitted.plan, fitted.run, fitted.verdict
    return json.dumps(
        {
            "schema_version": 1,
            **head_json(fitted.single.card, fitted.single.run, fitted.single.verdict),
            "fit": {
                "limit_bytes": options.fit_bytes,
                "as_it_is": fitted.as_it_is.to_json(),
                "remedies": None if plan is None else list(plan.names),
                "expected_peak_reserved_bytes": None if plan is None else plan.predicted_bytes,
                "refusal": fitted.refusal or None,
                "problem": fitted.problem or None,
                "applied": None if run is None else [effect.what for effect in run.effects],
                "predicted": (
                    None
                    if run is None or verdict is None
                    else head_json(fitted.single.card, run, verdict)
                ),
                "code": None if plan is None else [{"name": n, "how": h} for n, h in plan.code],
            },
        },
        indent=2,
    )
