"""The programs by which `estimate` is judged: their list, their archive, how they are added."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "bench" / "estimate"))

import estimate_programs

SOURCE = "import numpy as np\nimport torch\n"
TRUTH = {"torch": "2.11.0+cu130", "gpu": "NVIDIA H200", "programs": {"new": {"exit_code": 0}}}


@pytest.fixture
def copied(monkeypatch, tmp_path):
    for name in ("MANIFEST", "ARCHIVE"):
        path = getattr(estimate_programs, name)
        monkeypatch.setattr(estimate_programs, name, Path(shutil.copy(path, tmp_path)))
    (tmp_path / "new").mkdir()
    (tmp_path / "new" / "new.py").write_text(SOURCE)
    facts = {"new": {"path": "new.py", "kind": "plain loop", "tiny": ["--size", "2"]}}
    (tmp_path / "new" / "programs.json").write_text(json.dumps(facts))
    return tmp_path


def recorded(folder, found):
    path = folder / "found.json"
    path.write_text(json.dumps(found))
    estimate_programs.record(path)
    return estimate_programs.read_programs("all", ["new"])[0]


def test_each_program_has_one_source_that_says_what_it_needs():
    programs = estimate_programs.read_programs("all")
    readable = {path.name for path in estimate_programs.READABLE.iterdir()}
    archived = estimate_programs.read_archive()
    assert sorted([*readable, *archived]) == sorted(program["path"] for program in programs)
    with estimate_programs.unpacked(programs) as folder:
        for program in programs:
            source = (folder / program["path"]).read_bytes()
            assert estimate_programs.needs(source) == program["needs"], program["name"]


def test_archive_and_list_are_as_they_would_be_written():
    text = estimate_programs.manifest_text(estimate_programs.read_manifest())
    assert text == estimate_programs.MANIFEST.read_text()
    sources = estimate_programs.read_archive()
    assert estimate_programs.packed(sources) == estimate_programs.packed(sources)
    assert list(sources) == sorted(sources)


def test_added_program_gets_a_prediction_and_then_its_truth(copied):
    estimate_programs.add("blind_ten", copied / "new")
    (program,) = estimate_programs.read_programs("blind_ten")
    assert program["path"] == "blind_ten/new.py"
    assert program["needs"] == ["numpy"]
    estimate_programs.unpack([program], copied)
    assert (copied / program["path"]).read_text() == SOURCE
    assert recorded(copied, {"new": {"verdict": "fits"}})["prediction"] == {"verdict": "fits"}
    printed = "loss 1\n/somewhere/new.py:1: a warning\n"
    truth = {**TRUTH, "programs": {"new": {"exit_code": 0, "set": "open", "output": printed}}}
    assert recorded(copied, truth)["truth"] == {"exit_code": 0, "output": "loss 1\n"}
    assert set(estimate_programs.read_archive()) > {program["path"]}


def test_prediction_and_program_are_refused_once_the_truth_is_recorded(copied):
    estimate_programs.add("blind_ten", copied / "new")
    recorded(copied, TRUTH)
    with pytest.raises(SystemExit, match="this prediction of it is not blind"):
        recorded(copied, {"new": {"verdict": "fits"}})
    with pytest.raises(SystemExit, match="stays as it is"):
        estimate_programs.add("blind_ten", copied / "new")


def test_truth_of_another_card_is_refused(copied):
    estimate_programs.add("blind_ten", copied / "new")
    with pytest.raises(SystemExit, match="was made on NVIDIA A100, the data on NVIDIA H200"):
        recorded(copied, {**TRUTH, "gpu": "NVIDIA A100"})
