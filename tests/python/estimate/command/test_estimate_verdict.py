"""The verdict: fits, may not fit, does not fit, each with its reason."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from gpumemprof import _core
from gpumemprof.estimate.cards import find_card
from gpumemprof.estimate.command.answer import as_text
from gpumemprof.estimate.command.bands import bands
from gpumemprof.estimate.command.options import Options
from gpumemprof.estimate.command.prediction import Assumption, OutOfMemory, Prediction
from gpumemprof.estimate.command.single import Single
from gpumemprof.estimate.command.verdict import Answer, Room, judge
from predicted_runs import RUNNING_OUT, predicted

GIB = 1 << 30
CARD = find_card("l4")
ROOM = Room.of_card(CARD)


def prediction(reserved: int, **changes) -> Prediction:
    plain = Prediction(
        allocated_bytes=int(reserved * 0.9),
        reserved_bytes=reserved,
        retries=0,
        steps=3,
        ended="steps",
        out_of_memory=None,
        certainty={"exact": reserved},
        needed_bytes=reserved,
    )
    return replace(plain, **changes)


def test_exact_rules_make_narrow_bands() -> None:
    found = bands(prediction(10 * GIB, allocated_bytes=9 * GIB))
    assert found.allocated.high_bytes == pytest.approx(9 * GIB * 1.001, abs=1)
    assert found.allocated.low_bytes == pytest.approx(9 * GIB * 0.999, abs=1)
    assert found.reserved.high_bytes == pytest.approx(10 * GIB * 1.01, abs=1)
    assert found.is_certainty_known


def test_a_guess_is_its_own_band_and_the_unknown_only_adds() -> None:
    exact = bands(prediction(10 * GIB)).allocated
    guessed = bands(prediction(10 * GIB, certainty={"guess": GIB})).allocated
    assert guessed.high_bytes - exact.high_bytes == GIB
    assert exact.low_bytes - guessed.low_bytes == GIB
    unknown = bands(prediction(10 * GIB, certainty={"unknown": GIB})).allocated
    assert unknown.high_bytes - exact.high_bytes == GIB
    assert unknown.low_bytes == exact.low_bytes
    fitted = bands(prediction(10 * GIB, certainty={"fitted": GIB})).allocated
    assert exact.high_bytes < fitted.high_bytes < guessed.high_bytes


@pytest.mark.parametrize("kind", ["workspace", "shape", "execution"])
def test_an_assumption_that_moves_the_peak_widens_both_bands(kind: str) -> None:
    plain = bands(prediction(10 * GIB))
    assumed = Assumption(kind, "assumed", "train.py", 7, 1)
    found = bands(prediction(10 * GIB, assumptions=[assumed]))
    for narrow, wide in ((plain.allocated, found.allocated), (plain.reserved, found.reserved)):
        assert wide.low_bytes < 0.9 * narrow.low_bytes
        assert wide.high_bytes > 1.1 * narrow.high_bytes
    printed = Assumption("value", "a floating-point value was taken to be 1/2", "train.py", 7, 1)
    assert bands(prediction(10 * GIB, assumptions=[printed])) == plain
    value = Assumption("value", "a condition was taken to be True", "train.py", 7, 1)
    assert bands(prediction(10 * GIB, assumptions=[value])).reserved != plain.reserved


def test_a_large_block_in_doubt_may_move_segments() -> None:
    exact = bands(prediction(10 * GIB))
    small = bands(prediction(10 * GIB, certainty={"exact": 9 * GIB, "largest": 1 << 19}))
    large = bands(prediction(10 * GIB, certainty={"exact": 9 * GIB, "largest": 1 << 21}))
    assert small == exact
    assert large.reserved.high_bytes > 1.1 * exact.reserved.high_bytes
    assert large.allocated.high_bytes < 1.02 * exact.allocated.high_bytes


def test_small_programs_may_be_off_by_a_segment() -> None:
    found = bands(prediction(2 << 20, allocated_bytes=1024))
    assert found.allocated.low_bytes == 0
    assert found.allocated.high_bytes == 1024 + (1 << 20)
    assert (found.reserved.low_bytes, found.reserved.high_bytes) == (0, 4 << 20)
    doubtful = bands(prediction(2 << 20, certainty={"largest": 1 << 21}))
    assert doubtful.reserved.high_bytes == 22 << 20


def test_a_run_without_a_whole_step_is_not_said_to_fit() -> None:
    verdict = judge(prediction(GIB, ended="limit", steps=1), ROOM)
    assert verdict.answer is Answer.MAY_NOT_FIT
    assert "stopped before its second step" in verdict.sentence
    server = judge(prediction(GIB, ended="limit", steps=0), ROOM)
    assert "stopped before any optimizer step" in server.sentence
    assert judge(prediction(GIB, ended="limit", steps=2), ROOM).answer is Answer.FITS


def test_without_knowing_the_rules_the_bands_are_wider() -> None:
    found = bands(prediction(10 * GIB, certainty=None))
    assert not found.is_certainty_known
    assert found.allocated.high_bytes > bands(prediction(10 * GIB)).allocated.high_bytes


def test_what_fits_says_how_much_is_left() -> None:
    verdict = judge(prediction(10 * GIB), ROOM)
    assert verdict.answer is Answer.FITS
    free, spare = (
        _core.format_bytes(CARD.free_bytes),
        _core.format_bytes(CARD.free_bytes - 10 * GIB),
    )
    assert verdict.sentence == (
        f"fits an L4: peak 10.0 GiB of {free} free after the context; {spare} to spare"
    )
    assert verdict.short_bytes is None


def test_steps_that_were_not_predicted_are_not_said_to_fit() -> None:
    stopped = judge(prediction(10 * GIB), ROOM)
    assert stopped.about("train.py").startswith("The first steps of train.py fit an L4: peak ")
    ended = judge(prediction(10 * GIB, ended="exit"), ROOM)
    assert ended.about("train.py").startswith("train.py fits an L4: peak ")


def test_the_upper_end_of_the_band_must_fit_too() -> None:
    tight = CARD.free_bytes - CARD.library_bytes - (30 << 20)
    verdict = judge(prediction(tight, allocated_bytes=tight - (8 << 20)), ROOM)
    assert verdict.answer is Answer.FITS
    doubtful = judge(
        prediction(tight, allocated_bytes=tight - (8 << 20), certainty={"guess": GIB}), ROOM
    )
    assert doubtful.answer is Answer.MAY_NOT_FIT
    assert doubtful.sentence.startswith("may not fit an L4: peak ")
    assert "1.02 GiB more than predicted" in doubtful.sentence


def test_libraries_outside_the_pool_must_fit_too() -> None:
    peak = CARD.free_bytes - CARD.library_bytes // 2
    assert judge(prediction(peak), ROOM).answer is Answer.MAY_NOT_FIT
    limit = Room.of_size(CARD.free_bytes)
    assert judge(prediction(peak, allocated_bytes=GIB), limit).answer is Answer.FITS


def test_a_cache_that_can_be_given_back_does_not_count() -> None:
    verdict = judge(prediction(40 * GIB, needed_bytes=10 * GIB), ROOM)
    assert verdict.answer is Answer.FITS
    assert verdict.is_tight
    assert "only by giving cached memory back" in verdict.sentence


def test_what_ran_out_of_memory_does_not_fit_and_names_the_line() -> None:
    failed = prediction(
        CARD.free_bytes,
        ended="out of memory",
        out_of_memory=OutOfMemory("train.py:52", GIB, 3 * GIB),
        needed_bytes=None,
    )
    verdict = judge(failed, ROOM)
    assert verdict.sentence == "does not fit an L4: at train.py:52, short by at least 3.00 GiB"
    whole = prediction(30 * GIB)
    known = judge(failed, ROOM, whole)
    assert known.short_bytes == 30 * GIB - CARD.free_bytes
    assert known.sentence.startswith("does not fit an L4: at train.py:52, short by 8.")


def test_a_program_that_goes_on_after_running_out_may_still_fit() -> None:
    went_on = prediction(10 * GIB, out_of_memory=OutOfMemory("train.py:52", GIB, GIB))
    assert judge(went_on, ROOM).answer is Answer.FITS
    assert judge(went_on.failed(), ROOM).answer is Answer.DOES_NOT_FIT


def test_what_a_program_asks_for_to_find_the_limit_is_not_what_it_needs(tmp_path: Path) -> None:
    card = find_card("rtx-3080")
    reserved = predicted(tmp_path, RUNNING_OUT).prediction.reserved_bytes
    run = predicted(tmp_path, RUNNING_OUT, card.id, reserved, "exit")
    assert run.prediction.out_of_memory is not None
    assert run.prediction.needed_bytes is None
    verdict = judge(run.prediction, Room.of_size(reserved))
    assert verdict.answer is not Answer.DOES_NOT_FIT
    single = Single(card, run, verdict, run)
    text = " ".join(as_text(Options(["train.py"], card), single).split())
    assert "Memory ran out at case.py:52 in between, and the program went on." in text


def test_a_program_that_is_stopped_while_it_grows_may_not_fit(tmp_path: Path) -> None:
    growing = prediction(GIB, ended="limit", steps=100, grows_at_end=True)
    assert judge(growing, ROOM).answer is Answer.MAY_NOT_FIT
    assert "while its memory still grew" in judge(growing, ROOM).sentence
    assert judge(replace(growing, grows_at_end=False), ROOM).answer is Answer.FITS
    assert not predicted(tmp_path, ended="limit").prediction.grows_at_end


def test_a_recording_says_what_was_predicted(tmp_path: Path) -> None:
    run = predicted(tmp_path, certainty={"exact": 5, "guess": 7})
    device = run.recording.devices[0]
    found = run.prediction
    assert found.allocated_bytes == device.peak.allocated_bytes
    assert found.reserved_bytes == device.peak_reserved_bytes
    assert found.needed_bytes is not None
    assert found.needed_bytes <= found.reserved_bytes
    assert found.certainty == {"exact": 5, "guess": 7}
    assert [(entry.where, entry.count) for entry in found.assumptions] == [
        ("train.py:52", 3),
        ("model.py:7", 1),
    ]
    assert not found.has_failed


def test_simulated_limits_name_the_line_where_memory_runs_out(tmp_path: Path) -> None:
    small = 4 * GIB
    found = predicted(tmp_path, limits=(small,)).prediction
    verdict = judge(found, Room.of_size(small))
    assert verdict.answer is Answer.DOES_NOT_FIT
    assert verdict.line == "case.py:52"
    assert verdict.short_bytes == (found.needed_bytes or 0) - small


def test_a_recorded_shortage_is_read_with_its_line(tmp_path: Path) -> None:
    limit = find_card("rtx-3080").free_bytes
    found = predicted(tmp_path, RUNNING_OUT, "rtx-3080", limit, "out of memory").prediction
    assert found.has_failed
    assert found.needed_bytes is None
    assert found.out_of_memory is not None
    assert found.out_of_memory.where == "case.py:52"
    assert found.out_of_memory.short_bytes > found.out_of_memory.wanted_bytes
