"""``--fit``: which remedies are tried, and whose prediction decides."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from gpumemprof.estimate.cards import find_card
from gpumemprof.estimate.command.fit import answer, plans, trials
from gpumemprof.estimate.command.options import Options
from gpumemprof.estimate.command.program import Run, Trial, UnpredictedError
from gpumemprof.estimate.command.ranks.answer import RankAnswer
from gpumemprof.estimate.command.single import Single
from gpumemprof.estimate.command.verdict import Room, judge
from gpumemprof.estimate.ranks.world import World
from gpumemprof.verify.apply import Effect
from predicted_runs import FITTING, RUNNING_OUT, predicted


def test_only_plans_with_remedies_are_proposed() -> None:
    found = {
        "is_found": True,
        "remedies": ["checkpointing", "sgd"],
        "code": [{"name": "checkpointing", "how": "checkpoint(block, x)"}],
        "predicted_peak_reserved_bytes": 5,
        "alternatives": [
            {"remedies": ["fused"], "code": None, "predicted_peak_reserved_bytes": None},
            {"remedies": [], "code": None, "predicted_peak_reserved_bytes": 7},
        ],
    }
    proposed = plans.plans(found)
    assert [plan.title for plan in proposed] == ["checkpointing + sgd", "fused"]
    assert proposed[0].cannot_be_applied == ["sgd"]
    assert proposed[1].cannot_be_applied == []
    assert plans.plans({**found, "is_found": False}) == []


def test_a_remedy_that_can_be_proven_alone_is_found() -> None:
    def remedy(name: str, reserved: int | None) -> dict[str, object]:
        return {"name": name, "how": "code", "predicted_peak_reserved_bytes": reserved}

    remedies = [
        remedy("sgd", 5),
        remedy("fused", 20),
        remedy("empty_cache", None),
        remedy("checkpointing", 9),
    ]
    found = plans.single_remedies(remedies, 10)
    assert [(plan.title, plan.predicted_bytes) for plan in found] == [("checkpointing", 9)]


def plan_of(*names: str) -> plans.Plan:
    return plans.Plan(names, tuple((name, f"use({name})") for name in names), 5 << 30)


def test_plans_that_can_be_applied_come_before_cheaper_ones() -> None:
    def entry(*names: str) -> dict[str, object]:
        return {"remedies": list(names), "code": None, "predicted_peak_reserved_bytes": 5}

    advice = {
        "fit": {**entry("sgd"), "is_found": True, "alternatives": [entry("fused"), entry("sgd8")]},
        "remedies": [
            {"name": name, "how": "", "predicted_peak_reserved_bytes": 5}
            for name in ("fused", "checkpointing", "autocast_bf16", "foreach_off")
        ],
    }
    tried = plans.tried_plans(advice, 10)
    assert [plan.title for plan in tried] == ["fused", "checkpointing", "autocast_bf16"]
    by_hand = {"fit": {**advice["fit"], "alternatives": []}, "remedies": []}
    assert [plan.title for plan in plans.tried_plans(by_hand, 10)] == ["sgd"]
    assert plans.tried_plans({**advice, "fit": None}, 10) == []


LIMIT = 8 << 30


def fit_options(**changes) -> Options:
    given = {"per_node": 2, "ranks": [0, 1], "fit_bytes": LIMIT, **changes}
    return Options(["train.py"], find_card("a100-80gb"), **given)


@pytest.fixture
def two_ranks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, dict[int, str]]:
    """The snapshots that stand for ranks, without remedies and with each plan."""
    made = {"": {0: FITTING, 1: RUNNING_OUT}}

    def run_of(snapshot: str, name: str) -> Run:
        place = tmp_path / name
        place.mkdir()
        return predicted(place, snapshot, limits=(LIMIT,))

    def predict_ranks(options: Options, folder: Path) -> list[RankAnswer]:
        found = []
        for rank in options.ranks:
            run = run_of(made[""][rank], f"first{rank}")
            verdict = judge(run.prediction, Room.of_card(options.card))
            found.append(RankAnswer(World(rank, 2, 1), Single(options.card, run, verdict, run)))
        return found

    def predict(options: Options, trial: Trial) -> Run:
        assert trial.world is not None
        (name,) = trial.remedies
        rank = trial.world.rank
        if name not in made:
            raise UnpredictedError(f"{name} is too much")
        run = run_of(made[name][rank], f"{name}{rank}")
        # What it does to one rank is enough: a stage may have nothing to change.
        run.effects.append(Effect(name, count=1 - rank, what=f"changed on rank {rank}"))
        return run

    monkeypatch.setattr(trials, "predict_ranks", predict_ranks)
    monkeypatch.setattr(trials, "predict", predict)
    monkeypatch.setattr(
        trials, "tried_plans", lambda *_: [plan_of("fused"), plan_of("autocast_bf16")]
    )
    return made


def test_the_rank_that_needs_most_decides(two_ranks, tmp_path: Path, capsys) -> None:
    two_ranks["fused"] = {0: FITTING, 1: RUNNING_OUT}
    two_ranks["autocast_bf16"] = {0: FITTING, 1: FITTING}
    assert answer.answer(fit_options(json=True), tmp_path) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["world_size"], found["worst_rank"]) == (2, 1)
    assert found["fit"]["as_it_is"]["answer"] == "does not fit"
    # The first plan helps one rank alone, so the next one is tried.
    assert [entry["remedies"] for entry in found["fit"]["tried"]] == [["fused"], ["autocast_bf16"]]
    first = found["fit"]["tried"][0]["predicted"]
    assert (first["verdict"]["answer"], first["worst_rank"]) == ("does not fit", 1)
    assert found["fit"]["remedies"] == ["autocast_bf16"]
    assert found["fit"]["predicted"]["verdict"]["answer"] == "fits"
    assert found["fit"]["code"] == [{"name": "autocast_bf16", "how": "use(autocast_bf16)"}]


def test_a_program_that_no_plan_makes_fit_is_said_not_to_fit(two_ranks, tmp_path, capsys) -> None:
    two_ranks["autocast_bf16"] = {0: FITTING, 1: RUNNING_OUT}
    assert answer.answer(fit_options(), tmp_path) == 1
    text = " ".join(capsys.readouterr().out.split())
    assert text.startswith("train.py does not fit 8.00 GiB: at case.py:52, short by")
    assert "(rank 1 of 2)" in text
    assert "The advice: fused. The advice expected 5.00 GiB reserved. But " in text
    assert "fused is too much" in text
    assert "With autocast_bf16, it does not fit 8.00 GiB" in text
    assert "all 2 ranks were predicted" in text


def test_a_program_that_fits_as_it_is_needs_no_plan(two_ranks, tmp_path, capsys) -> None:
    two_ranks[""] = {0: FITTING, 1: FITTING}
    assert answer.answer(fit_options(json=True), tmp_path) == 0
    found = json.loads(capsys.readouterr().out)["fit"]
    assert (found["remedies"], found["tried"], found["predicted"]) == (None, [], None)
    assert found["as_it_is"]["answer"] == "fits"


def test_a_remedy_that_changes_no_rank_is_not_believed(two_ranks, tmp_path, monkeypatch) -> None:
    two_ranks["fused"] = two_ranks["autocast_bf16"] = {0: FITTING, 1: FITTING}
    predict = trials.predict

    def changing_nothing(options: Options, trial: Trial) -> Run:
        run = predict(options, trial)
        run.effects[:] = [Effect("fused", count=0, what="no optimizer can be fused")]
        return run

    monkeypatch.setattr(trials, "predict", changing_nothing)
    found = trials.fit(fit_options(), tmp_path)
    assert found.proven is None
    expected = "fused changed nothing in this program: no optimizer can be fused"
    assert found.outcomes[0].problem == expected
