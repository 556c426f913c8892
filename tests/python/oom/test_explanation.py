"""The explanation of recorded failures, made in another process; the recordings are of a GPU."""

from __future__ import annotations

import gzip
import json
import pickle
import time
from pathlib import Path

import pytest
from gpumemprof.failure import explanation
from gpumemprof.failure.explanation import Explanation, Question, ask

RECORDINGS = Path(__file__).resolve().parents[2] / "data" / "oom"
FRAGMENTED = RECORDINGS.parent / "snapshots" / "oom_fragmented.pickle.gz"
CAUSES = [path.stem.removeprefix("oom_") for path in sorted(RECORDINGS.glob("*.gmp"))]


def question(path: Path, **changed: object) -> Question:
    usual = Question(str(path), time.time_ns(), "CUDA out of memory.", True, None, 80)
    return usual._replace(**changed)


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """The machine may be slow; how long it takes is not what is tested."""
    monkeypatch.setenv("GPUMEMPROF_EXPLAIN_SECONDS", "120")


def explained(path: Path, **changed: object) -> Explanation:
    found = ask(question(path, **changed))
    assert found is not None
    return found


@pytest.mark.parametrize("cause", CAUSES)
def test_names_the_cause_and_who_holds_the_memory(cause: str) -> None:
    found = explained(RECORDINGS / f"oom_{cause}.gmp")
    assert found.cause == cause
    assert not found.is_cut
    first = found.page.splitlines()[0]
    assert first.startswith("gpumemprof: cuda:0 ran out of memory: ")
    assert "probably" not in first
    if cause == "fragmentation":
        shown = " ".join(found.page.split())
        assert "None of the simulated allocator settings avoids it." in shown
    assert "In use: " in found.page
    assert "by line of your code" in found.page
    assert "Largest tensors: " in found.page
    assert found.page.splitlines()[-1].strip().startswith("Next: gpumemprof report ")
    assert found.note.splitlines()[0] == first
    assert len(found.note.splitlines()) < len(found.page.splitlines())
    assert all(len(line) <= 80 or "gpumemprof" in line for line in found.page.splitlines())


def test_fragmentation_names_a_setting_that_was_simulated() -> None:
    page = " ".join(explained(FRAGMENTED).page.split())
    assert "expandable_segments:True, the same run gets past this request" in page
    assert "reserved (simulated" in page


def test_a_shortage_says_that_no_setting_helps_and_by_how_much() -> None:
    page = " ".join(explained(RECORDINGS / "oom_shortage.gmp").page.split())
    assert "Under any allocator setting: " in page
    assert "short, even with all gaps joined." in page


def test_a_failure_outside_the_allocator_is_explained_from_the_last_event() -> None:
    error = "CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"
    found = explained(RECORDINGS / "oom_outside_pool.gmp", is_allocator=False, error=error)
    assert found.cause == ""
    page = " ".join(found.page.split())
    assert f"memory outside PyTorch's allocator ran out: {error}" in page
    assert "the card had" in page
    assert "outside the pool" in page


def test_a_device_without_a_failure_is_explained_all_the_same() -> None:
    found = explained(RECORDINGS / "oom_limit.gmp", device=None, is_allocator=True)
    assert found.cause == "limit"
    assert ask(question(RECORDINGS / "oom_limit.gmp", device=5)) is None


def test_a_file_that_cannot_be_read_explains_nothing(tmp_path: Path) -> None:
    (tmp_path / "empty.gmp").write_bytes(b"")
    assert ask(question(tmp_path / "empty.gmp")) is None
    assert ask(question(tmp_path / "missing.gmp")) is None


def test_too_little_time_gives_no_explanation(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPUMEMPROF_EXPLAIN_SECONDS", "0.001")
    assert ask(question(RECORDINGS / "oom_limit.gmp")) is None
    monkeypatch.setenv("GPUMEMPROF_EXPLAIN_SECONDS", "0")
    assert ask(question(RECORDINGS / "oom_limit.gmp")) is None


def test_a_cut_answer_is_used_up_to_its_last_whole_line() -> None:
    rows = [
        {"note": "n1", "page": "p1", "cause": "fragmentation", "is_last": False},
        {"note": "n2", "page": "p2", "cause": "fragmentation", "is_last": True},
    ]
    lines = [json.dumps(row).encode() for row in rows]
    assert explanation._read(lines[0] + b"\n" + lines[1][:20], False) == (
        "n1",
        "p1",
        "fragmentation",
        True,
    )
    assert explanation._read(b"\n".join(lines), False) == ("n2", "p2", "fragmentation", False)
    assert explanation._read(b"", False) is None


@pytest.fixture
def two_cards(tmp_path: Path) -> Path:
    """The first card trains, the second runs out of memory: two recordings of one card, joined."""
    with gzip.open(RECORDINGS.parent / "snapshots" / "mlp_b64_fp32_adam.pickle.gz") as file:
        trains = pickle.load(file)
    with gzip.open(FRAGMENTED) as file:
        fails = pickle.load(file)
    fails["device_traces"] = [trains["device_traces"][0], fails["device_traces"][0]]
    for segment in fails["segments"]:
        segment["device"] = 1
    fails["segments"] = [*trains["segments"], *fails["segments"]]
    path = tmp_path / "two.pickle"
    path.write_bytes(pickle.dumps(fails))
    return path


@pytest.mark.parametrize("device", [None, 1])
def test_the_second_card_is_named_if_it_ran_out(two_cards: Path, device: int | None) -> None:
    found = explained(two_cards, device=device)
    assert found.cause == "fragmentation"
    assert found.page.startswith("gpumemprof: cuda:1 ran out of memory: ")


def test_a_card_that_did_not_run_out_is_not_blamed(two_cards: Path) -> None:
    found = ask(question(two_cards, device=0, error="CUDA out of memory. GPU 0"))
    assert found is not None
    assert found.page.startswith("gpumemprof: cuda:0: memory outside PyTorch's allocator ran out")
