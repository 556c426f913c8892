"""An estimate begins and ends, and leaves the process as it was."""

from __future__ import annotations

import ctypes
import gc
import os
import subprocess
import sys

import pytest
import torch
from counting_memory import CARD, CountingMemory
from gpumemprof.errors import Error
from gpumemprof.estimate.engine import self_check, session
from gpumemprof.estimate.rules.table import CompiledRule


def test_after_an_estimate_the_process_is_as_before():
    names = ("memory_allocated", "is_available", "Stream", "synchronize", "manual_seed")
    before = [getattr(torch.cuda, name) for name in names]
    others = (torch.save, torch.load, torch.compile, os.path.exists, torch.Tensor.pin_memory)
    with session.estimating(CARD, memory=CountingMemory()):
        assert torch.cuda.is_available()
    assert [getattr(torch.cuda, name) for name in names] == before
    assert (
        torch.save,
        torch.load,
        torch.compile,
        os.path.exists,
        torch.Tensor.pin_memory,
    ) == others
    assert torch.ones(3).sum().item() == 3


def test_the_check_at_the_start_steps_no_optimizer_of_the_program():
    from torch.optim.optimizer import register_optimizer_step_pre_hook

    steps = []
    handle = register_optimizer_step_pre_hook(lambda *_: steps.append(1))
    try:
        with session.estimating(CARD, memory=CountingMemory()):
            assert steps == []
    finally:
        handle.remove()


def test_the_driver_finds_no_card_whatever_the_program_sets(estimate):
    os.environ["CUDA_VISIBLE_DEVICES"] = "0"
    assert os.environ["CUDA_VISIBLE_DEVICES"] == "0"
    get = ctypes.CDLL(None).getenv
    get.restype = ctypes.c_char_p
    assert get(b"CUDA_VISIBLE_DEVICES") == b""


def test_what_was_found_is_returned():
    memory = CountingMemory()
    session.begin(CARD, memory=memory)
    tensor = torch.empty(1000, device="cuda")
    del tensor
    facts = session.end()
    assert facts.peak_allocated_bytes == 4000
    assert facts.card is CARD
    assert facts.operation_count == 1
    assert facts.failure == ""


def test_two_estimates_at_once_are_refused(estimate):
    with pytest.raises(Error, match="running already"):
        session.begin(CARD, memory=CountingMemory())


@pytest.mark.parametrize("release", [(2, 5), (2, 14)])
def test_a_release_of_torch_that_is_not_known_is_refused(monkeypatch, release):
    monkeypatch.setattr(session, "torch_release", lambda: release)
    with pytest.raises(Error, match=r"use a release from 2\.6"):
        session.begin(CARD, memory=CountingMemory())


def test_the_check_at_the_start_finds_a_patch_that_does_not_hold(monkeypatch):
    monkeypatch.setattr(self_check, "_check_values", lambda: int("nonsense"))
    with pytest.raises(Error, match="estimate does not work with torch"):
        session.begin(CARD, memory=CountingMemory())
    assert torch.ones(3).sum().item() == 3
    assert session.active() is None


def test_the_check_leaves_nothing_behind(memory):
    with session.estimating(CARD, memory=memory):
        assert memory.sizes == []
        assert torch.cuda.memory_allocated() == 0


def test_a_rule_that_fails_is_noted_and_the_program_goes_on(estimate, memory, monkeypatch):
    def fail(device, call, outputs):
        raise ZeroDivisionError("no threads")

    broken = CompiledRule(before=(), instead=None, births=fail, after=(fail,), certainty="exact")
    monkeypatch.setitem(estimate.mode._rules, "tanh", broken)
    result = torch.tanh(torch.empty(100, device="cuda"))
    assert result.shape == (100,)
    assert memory.sizes == [400, 400]
    texts = [each.text for each in estimate.assumptions if each.kind == "workspace"]
    assert any("tanh" in text and "no threads" in text for text in texts)


def test_after_a_backward_without_a_gpu_the_sentence_says_what_to_do(tmp_path):
    program = tmp_path / "late.py"
    program.write_text(
        "import torch, gpumemprof\n"
        "torch.ones(2, requires_grad=True).sum().backward()\n"
        "with gpumemprof.estimating(gpu='l4'):\n"
        "    pass\n"
    )
    done = subprocess.run([sys.executable, program], capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode != 0
    assert "backward has already run in this process" in done.stderr
    assert "in a new process" in done.stderr
    # One traceback, from the program's line, without what torch said inside of the estimate.
    assert done.stderr.count("Traceback") == 1
    assert "INTERNAL ASSERT" not in done.stderr
    assert done.stderr.count("File ") == 2


def test_the_garbage_collector_is_left_as_it_was(memory):
    before = gc.get_threshold()
    with session.estimating(CARD, memory=memory):
        kept = [torch.zeros(1000, device="cuda") for _ in range(40)]
        assert gc.get_threshold() != before
    assert gc.get_threshold() == before
    kept.clear()  # What outlives the prediction does not move the limit either.
    assert gc.get_threshold() == before
