"""Tables of several predictions of a program with several ranks: each row is its worst rank."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from gpumemprof.estimate.cards import CARDS, find_card
from gpumemprof.estimate.command import all_cards, sweep
from gpumemprof.estimate.command.options import Options
from gpumemprof.estimate.command.program import Run, Trial, UnpredictedError
from gpumemprof.estimate.command.ranks.answer import RankAnswer
from gpumemprof.estimate.command.ranks.running import RankRun, Ranks
from gpumemprof.estimate.command.single import Single
from gpumemprof.estimate.command.sweep_flags import parse_sweep
from gpumemprof.estimate.command.verdict import Answer, Room, judge
from gpumemprof.estimate.ranks.world import World
from predicted_runs import FITTING, RUNNING_OUT, predicted


def options_of(card: str = "rtx-3080", **changes) -> Options:
    return Options(["train.py"], find_card(card), per_node=2, ranks=[0, 1], **changes)


def run_of_rank(folder: Path, rank: int | None) -> Run:
    """The second rank needs more than the first."""
    place = folder / f"made {rank}"
    place.mkdir(exist_ok=True)
    limits = tuple(card.free_bytes for card in CARDS)
    run = predicted(place, RUNNING_OUT if rank == 1 else FITTING, limits=limits)
    # On a card without a limit, nothing runs out.
    return replace(run, prediction=replace(run.prediction, out_of_memory=None))


def test_ranks_run_with_their_world_and_a_folder_each(tmp_path: Path) -> None:
    seen = {}

    def predict(run: RankRun) -> int:
        seen[run.world.rank] = (run.world.size, run.folder.is_dir(), run.is_captured)
        return 10 * run.world.rank

    options = Options(["train.py"], find_card("t4"), per_node=2, nodes=2, ranks=[0, 2, 3])
    assert Ranks(options, tmp_path, predict).predict() == [0, 20, 30]
    # The output of the first rank is shown while it runs.
    assert seen == {0: (4, True, False), 2: (4, True, True), 3: (4, True, True)}
    (tmp_path / "again").mkdir()
    Ranks(options, tmp_path / "again", predict, is_captured=True).predict()
    assert seen[0] == (4, True, True)


def test_a_rank_that_fails_is_named_and_its_output_shown_once(tmp_path: Path, capsys) -> None:
    def predict(_: RankRun) -> int:
        error = UnpredictedError("the program ended with exit code 2", "bad_input", "", "look")
        error.output = "its last words"
        raise error

    for is_captured in (True, False):
        folder = tmp_path / str(is_captured)
        folder.mkdir()
        with pytest.raises(UnpredictedError, match=r"^rank [01]: the program ended") as raised:
            Ranks(options_of(), folder, predict, is_captured).predict()
        shown = capsys.readouterr().err
        # Several answers are made where it is captured: only the last of them is shown.
        assert shown == ("" if is_captured else "its last words\n")
        assert raised.value.output == ("its last words" if is_captured else "")


def test_a_card_is_judged_by_its_worst_rank(tmp_path: Path, monkeypatch, capsys) -> None:
    tried = []

    def predict(options: Options, trial: Trial) -> Run:
        assert trial.world is not None
        tried.append((trial.card.capability, trial.world.rank))
        return run_of_rank(trial.path.parent, trial.world.rank)

    monkeypatch.setattr(all_cards, "predict", predict)
    assert all_cards.answer(options_of(is_for_all_cards=True, json=True), tmp_path) == 0
    rows = json.loads(capsys.readouterr().out)["cards"]
    assert sorted(tried) == sorted({(card.capability, rank) for card in CARDS for rank in (0, 1)})
    needed = run_of_rank(tmp_path, 1).prediction.reserved_bytes
    assert [row["verdict"]["peak_reserved_bytes"] for row in rows] == [needed] * len(CARDS)
    (tmp_path / "text").mkdir()
    all_cards.answer(options_of(is_for_all_cards=True), tmp_path / "text")
    assert "the rank that needs most; all 2 ranks" in " ".join(capsys.readouterr().out.split())


def test_a_program_that_looks_for_what_fits_runs_on_each_card(
    tmp_path: Path, monkeypatch, capsys
) -> None:
    tried = []

    def predict(options: Options, trial: Trial) -> Run:
        tried.append((trial.card.id, trial.limit_bytes))
        place = tmp_path / f"{len(tried)}"
        place.mkdir()
        return predicted(place, RUNNING_OUT, trial.card.id, trial.limit_bytes, "exit")

    monkeypatch.setattr(all_cards, "predict", predict)
    monkeypatch.setattr(all_cards, "CARDS", [find_card("l4"), find_card("rtx-4090")])
    options = Options(["train.py"], find_card("l4"), is_for_all_cards=True, json=True)
    assert all_cards.answer(options, tmp_path) == 0
    cards = {find_card(name).id: find_card(name).free_bytes for name in ("l4", "rtx-4090")}
    assert tried[1:] == list(cards.items())
    assert [row["card"]["id"] for row in json.loads(capsys.readouterr().out)["cards"]] == [*cards]


def test_a_sweep_shows_the_worst_rank_of_each_value(tmp_path: Path, monkeypatch, capsys) -> None:
    def predict_ranks(options: Options, folder: Path, is_captured: bool) -> list[RankAnswer]:
        assert is_captured
        if options.program[-1] == "8":
            raise UnpredictedError("rank 1: no such data")
        singles = []
        for rank in options.ranks:
            # With one sample, no rank needs much.
            run = run_of_rank(folder, rank if options.program[-1] == "4" else 0)
            verdict = judge(run.prediction, Room.of_card(options.card))
            singles.append(RankAnswer(World(rank, 2, 1), Single(options.card, run, verdict, run)))
        return singles

    monkeypatch.setattr(sweep, "predict_ranks", predict_ranks)
    monkeypatch.chdir(tmp_path)
    Path("train.py").write_text("--batch")
    options = options_of(sweeps=[parse_sweep("batch=1,4,8")], json=True)
    (tmp_path / "json").mkdir()
    assert sweep.answer(options, tmp_path / "json") == 0
    found = json.loads(capsys.readouterr().out)
    assert found["largest_that_fits"] == {"--batch": "1"}
    answers = [row.get("verdict", {}).get("answer") for row in found["runs"]]
    assert answers == [Answer.FITS.value, Answer.DOES_NOT_FIT.value, None]
    assert [row.get("worst_rank") for row in found["runs"]] == [0, 1, None]
    assert "rank 1: no such data" in found["runs"][2]["problem"]
