"""A program that cannot be predicted ends in one sentence; its own errors are its own."""

from __future__ import annotations

import sys
import threading
import traceback

import pytest
import torch
from gpumemprof.estimate.engine.failures import CannotEstimate, explained, hide_frames
from gpumemprof.estimate.engine.fake_mode import outside_modes
from gpumemprof.estimate.hidden_files import hidden_files


class NoLabels(torch.utils.data.Dataset):
    def __len__(self):
        return 4

    def __getitem__(self, index):
        raise KeyError(f"label {index}")


@pytest.mark.parametrize("workers", [0, 1])
def test_the_traceback_of_a_worker_has_no_frames_of_ours(estimate, workers):
    with pytest.raises(KeyError) as error:
        list(torch.utils.data.DataLoader(NoLabels(), num_workers=workers))
    assert "label 0" in str(error.value)
    assert "gpumemprof" not in str(error.value).replace(__file__, "")


def failing(code):
    """The error of a piece of a program."""
    try:
        code()
    except Exception as error:
        return error
    pytest.fail("it did not fail")


def own_error():
    raise RuntimeError("CUDA error: of the program itself")


def in_a_library(text):
    """Code of a library that fails with this text."""
    space = {}
    code = f"def fail():\n    raise RuntimeError({text!r})"
    exec(compile(code, "/usr/lib/site-packages/library.py", "exec"), space)
    return space["fail"]


def two_devices():
    torch.ones(3, 4, device="cuda") @ torch.ones(4, 3)


def other_card():
    torch.zeros(3, device="cuda:3")


def compressed():
    torch.eye(4, device="cuda").to_sparse_csr()


def on_cuda(*shape, dtype=torch.float32):
    return torch.randn(*shape, device="cuda").to(dtype)


def grown_in_place():
    count = torch.ones(4, dtype=torch.int64, device="cuda")
    count += 0.5


# What an H200 with torch 2.11 said.
@pytest.mark.parametrize(
    ("code", "kind", "text"),
    [
        (
            lambda: on_cuda(4, 4) @ on_cuda(4, 4, dtype=torch.half),
            RuntimeError,
            "expected mat1 and mat2 to have the same dtype, but got: float != c10::Half",
        ),
        (
            lambda: torch.nn.Linear(4, 4).cuda()(on_cuda(2, 4, dtype=torch.bfloat16)),
            RuntimeError,
            "mat1 and mat2 must have the same dtype, but got BFloat16 and Float",
        ),
        (
            lambda: torch.nn.Linear(4, 4).cuda()(torch.randn(2, 4)),
            RuntimeError,
            "Expected all tensors to be on the same device, but got mat1 is on cpu, different from "
            "other tensors on cuda:0 (when checking argument in method wrapper_CUDA_addmm)",
        ),
        (
            lambda: torch.nn.Conv2d(3, 4, 3)(on_cuda(1, 3, 8, 8)),
            RuntimeError,
            "Input type (torch.cuda.FloatTensor) and weight type (torch.FloatTensor) should be the "
            "same",
        ),
        (
            lambda: torch.nn.Conv2d(3, 4, 9).cuda()(on_cuda(1, 3, 8, 8)),
            RuntimeError,
            "Calculated padded input size per channel: (8 x 8). Kernel size: (9 x 9). Kernel size "
            "can't be greater than actual input size",
        ),
        (
            lambda: on_cuda(4, 5) @ on_cuda(4, 5),
            RuntimeError,
            "mat1 and mat2 shapes cannot be multiplied (4x5 and 4x5)",
        ),
        (
            lambda: on_cuda(4, 5) + on_cuda(4, 6),
            RuntimeError,
            "The size of tensor a (5) must match the size of tensor b (6) at non-singleton "
            "dimension 1",
        ),
        (
            grown_in_place,
            RuntimeError,
            "result type Float can't be cast to the desired output type Long",
        ),
        (
            lambda: torch.nn.functional.cross_entropy(
                on_cuda(4, 3), torch.zeros(4, dtype=torch.int32, device="cuda")
            ),
            NotImplementedError,
            "\"nll_loss_forward_reduce_cuda_kernel_2d_index\" not implemented for 'Int'",
        ),
    ],
)
def test_errors_of_the_program_have_the_text_of_the_real_run(estimate, code, kind, text):
    error = failing(code)
    assert (type(error), str(error)) == (kind, text)
    assert explained(error, error.__traceback__) == ""


def test_an_error_of_the_program_is_not_explained():
    error = failing(own_error)
    assert explained(error, error.__traceback__) == ""


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("The tensor ..., but its data is not allocated yet.", "make it an operation with"),
        ("Found no NVIDIA driver on your system.", "asks of the CUDA driver"),
        ("Could not run 'mine::op' with arguments from", 'register_fake("mine::op")'),
        ("no rule registered for HigherOrderOperator scan and mode", "what scan returns; it is"),
        ("aten::qq: attempted to run this operator with Meta tensors", "what aten::qq returns"),
    ],
)
def test_what_the_estimate_causes_is_explained_with_the_line(text, part):
    error = failing(in_a_library(text))
    sentence = explained(error, error.__traceback__)
    assert "test_failures.py:" in sentence
    assert part in sentence


@pytest.mark.parametrize(
    ("code", "part"),
    [
        (other_card, "one card is predicted, and this uses cuda:3"),
        (compressed, "aten::_to_sparse_csr"),
    ],
)
def test_what_cannot_be_predicted_names_its_line(estimate, code, part):
    error = failing(code)
    assert isinstance(error, CannotEstimate)
    assert part in str(error)
    assert f"test_failures.py:{code.__code__.co_firstlineno + 1}: " in str(error)


def test_a_traceback_has_only_frames_that_a_gpu_would_show(estimate):
    error = failing(two_devices)
    assert str(error).startswith("Expected all tensors to be on the same device, but got mat2")
    hide_frames(error)
    files = [frame.filename for frame in traceback.extract_tb(error.__traceback__)]
    assert files == [__file__] * 2
    assert not any(file.startswith(hidden_files()) for file in files)


def test_a_sentence_takes_the_place_of_the_traceback(estimate, capsys):
    error = failing(compressed)
    sys.excepthook(type(error), error, error.__traceback__)
    shown = capsys.readouterr().err.splitlines()
    assert len([line for line in shown if "Traceback" in line]) == 0
    assert shown[-1] == f"gpumemprof: {error}"
    assert estimate.failure == str(error)


def test_a_thread_that_fails_is_noticed(estimate, capsys):
    thread = threading.Thread(target=compressed)
    thread.start()
    thread.join()
    assert "_to_sparse_csr" in estimate.failure
    assert "Traceback" not in capsys.readouterr().err


def test_a_refusal_that_the_program_catches_is_stated(estimate):
    failing(compressed)
    stated = [each for each in estimate.facts().assumptions if each.kind == "execution"]
    assert len(stated) == 1
    assert "went on where it could not be predicted" in stated[0].text


def test_an_operation_without_a_rule_is_in_doubt(estimate, memory):
    torch.kthvalue(torch.randn(1 << 10, 1 << 10, device="cuda"), 3, dim=0)
    found = estimate.facts().bytes_by_certainty
    assert found["largest"] == 1024 * 4 + 1024 * 8
    assert any("kthvalue has no rule" in each.text for each in estimate.facts().assumptions)


@pytest.mark.parametrize(
    ("others", "mask"), [(torch.half, None), (torch.float32, torch.half), (torch.float32, None)]
)
def test_attention_refuses_the_types_that_torch_refuses(estimate, others, mask):
    """torch checks them before it chooses a kernel, on any device."""

    def attend(device):
        query = torch.ones(1, 2, 8, 16, device=device)
        other = query.to(others)
        added = None if mask is None else torch.zeros(8, 8, device=device, dtype=mask)
        try:
            torch.nn.functional.scaled_dot_product_attention(query, other, other, attn_mask=added)
        except RuntimeError as error:
            return str(error).splitlines()[0]
        return "computed"

    with outside_modes():
        real = attend("cpu")
    assert attend("cuda") == real
    assert (real == "computed") == (others is torch.float32 and mask is None)


def test_cuda_code_of_the_program_is_refused_before_it_is_compiled(estimate, tmp_path):
    from torch.utils import cpp_extension

    for code in (
        lambda: cpp_extension.load_inline("mine", "int f();", "int f() { return 1; }"),
        lambda: cpp_extension.load("mine", [str(tmp_path / "a.cpp"), str(tmp_path / "b.cu")]),
    ):
        error = failing(code)
        assert isinstance(error, CannotEstimate)
        assert "the extension mine has CUDA code" in str(error)
