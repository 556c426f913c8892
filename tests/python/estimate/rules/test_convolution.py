"""Workspaces of convolutions: measured, answered by cuDNN, or taken from similar ones."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice
from pathlib import Path

import pytest
import torch
from gpumemprof.errors import InputError
from gpumemprof.estimate.calibrate import main as calibrate
from gpumemprof.estimate.calibrate.shapes import drawn
from gpumemprof.estimate.cards import find_card
from gpumemprof.estimate.rules.convolution import choice, cudnn, workspace
from gpumemprof.estimate.rules.convolution.columns import in_columns, rows_of_columns
from gpumemprof.estimate.rules.convolution.computed import as_computed
from gpumemprof.estimate.rules.convolution.cudnn import Plan
from gpumemprof.estimate.rules.convolution.gpu_engines import engine_bytes, engine_name
from gpumemprof.estimate.rules.convolution.measured import Table, encoded, load_table
from gpumemprof.estimate.rules.convolution.shape import KINDS, Convolution, Kind
from gpumemprof.estimate.rules.convolution.stream_k import corrected_bytes, is_stream_k

from replay import LoggedMemory, Replay

H200 = find_card("h200")
A100 = find_card("a100-80gb")
ENVIRONMENT = {"name": "NVIDIA Test", "capability": [8, 0], "multiprocessors": 108}
CALL = ["f32[8,64,56,56]", "f32[64,64,3,3]", None, [1, 1], [1, 1], [1, 1], False, [0, 0], 1]


@pytest.fixture(autouse=True)
def _without_cudnn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every machine answers alike, whether it has cuDNN or not."""
    monkeypatch.setattr(cudnn, "_library", lambda: None)
    workspace.workspace.cache_clear()


def a_convolution(batch: int = 32, channels: int = 64, kernel: int = 3) -> Convolution:
    return Convolution(
        batch=batch,
        channels=channels,
        outputs=64,
        groups=1,
        kernel=(kernel, kernel),
        stride=(1, 1),
        padding=(kernel // 2, kernel // 2),
        dilation=(1, 1),
        image=(56, 56),
        is_transposed=False,
        dtype=torch.float32,
        is_channels_last=False,
    )


def test_a_convolution_in_the_table_is_exact() -> None:
    found = workspace.workspace(a_convolution(), "forward", H200)
    assert found.certainty == "exact"
    assert found.size_bytes > 0


def test_another_shape_is_derived_from_similar_ones() -> None:
    found = workspace.workspace(a_convolution(33, 72), "weight", H200)
    copies = 33 * (72 + 64) * 56 * 56 * 4
    assert found.certainty == "fitted"
    assert copies <= found.size_bytes < 1.5 * copies


def test_cudnns_own_answer_is_preferred_to_similar_shapes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cudnn, "ask", lambda *_: Plan(38, 123_456))
    found = workspace.workspace(a_convolution(33, 72), "weight", H200)
    assert (found.size_bytes, found.certainty) == (123_456, "fitted")


def test_measurements_decide_whether_a_product_is_left_to_cublas(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Without a GPU, cuDNN does not consider cuBLAS, which needs no copies."""
    monkeypatch.setattr(cudnn, "ask", lambda *_: Plan(38, 123_456_789))
    product = a_convolution(33, 72, kernel=1)
    assert workspace.workspace(product, "forward", H200).size_bytes < 1024


@pytest.mark.parametrize(
    ("dtype", "is_last", "kernel", "expected"),
    [
        (torch.float32, False, 3, True),
        (torch.bfloat16, False, 3, True),
        (torch.float16, False, 3, False),
        (torch.float16, False, 7, True),
        (torch.float32, True, 3, False),
    ],
)
def test_torchs_own_depthwise_kernels(
    dtype: torch.dtype, is_last: bool, kernel: int, expected: bool
) -> None:
    depthwise = replace(
        a_convolution(kernel=kernel), groups=64, dtype=dtype, is_channels_last=is_last
    )
    assert workspace.is_native_depthwise(depthwise) == expected


def test_partial_sums_are_counted_for_the_cards_multiprocessors() -> None:
    """Recorded on an H200: without a GPU, cuDNN answered 47,186,067 bytes for this one."""
    convolution = replace(a_convolution(64, 512), outputs=512, image=(12, 12))
    plan = Plan(68, 47_186_067, {2: 0, 13: 0, 18: 1, 25: 0, 27: 1, 28: 1})
    assert is_stream_k(plan)
    size = corrected_bytes(convolution, "weight", plan, 132)
    assert abs(size - 55_837_423) < 512
    assert corrected_bytes(convolution, "weight", plan, 66) < size


def test_a_row_of_measurements_is_read_as_it_was_written() -> None:
    convolution = a_convolution()
    sizes = [0, convolution.copies_bytes() + 147, 3 * convolution.weight_elements() * 4]
    texts = " ".join(encoded(convolution, size) for size in sizes)
    assert texts == "0 c147 w3"
    table = Table(ENVIRONMENT, [f"{convolution.key()} f32 32 {texts}"])
    assert [table.exact(convolution, kind) for kind in KINDS] == sizes


def test_a_calibration_is_used_for_its_architecture(monkeypatch: pytest.MonkeyPatch) -> None:
    convolution = a_convolution(31)
    table = Table(ENVIRONMENT, [f"{convolution.key()} f32 31 4096 8192 0"])
    monkeypatch.setattr(workspace, "_calibrations", lambda: (table,))
    found = workspace.workspace(convolution, "forward", A100)
    assert (found.size_bytes, found.certainty) == (4096, "exact")
    assert workspace.workspace(convolution, "forward", H200).size_bytes != 4096


def test_a_card_with_other_multiprocessors_may_need_another_workspace(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    convolution = a_convolution(31)
    smaller = {**ENVIRONMENT, "multiprocessors": 60}
    table = Table(smaller, [f"{convolution.key()} f32 31 4096 8192 0"])
    monkeypatch.setattr(workspace, "_calibrations", lambda: (table,))
    found = workspace.workspace(convolution, "forward", A100)
    assert (found.size_bytes, found.certainty) == (4096, "fitted")


def test_a_small_calibration_hides_no_other_measurement(monkeypatch: pytest.MonkeyPatch) -> None:
    shipped = workspace.workspace(a_convolution(), "forward", H200)
    own = {**ENVIRONMENT, "capability": [9, 0], "multiprocessors": 132}
    table = Table(own, [f"{a_convolution(31).key()} f32 31 4096 8192 0"])
    monkeypatch.setattr(workspace, "_calibrations", lambda: (table,))
    workspace.workspace.cache_clear()
    assert workspace.workspace(a_convolution(), "forward", H200) == shipped
    assert workspace.workspace(a_convolution(31), "forward", H200).size_bytes == 4096


def test_another_card_is_told_where_its_figures_come_from() -> None:
    replay = Replay()
    device = replay.device(LoggedMemory(), capability=(8, 0))
    replay.run_on(device, "aten.convolution.default", CALL, {}, "f32[8,64,56,56]")
    assert any("H200" in each.text for each in device.assumptions)


def test_a_search_for_the_fastest_convolution_is_made_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.backends.cudnn, "benchmark", True)
    replay = Replay()
    memory = LoggedMemory()
    device = replay.device(memory)
    counts = []
    for _ in range(2):
        before = memory.count
        replay.run_on(device, "aten.convolution.default", CALL, {}, "f32[8,64,56,56]")
        counts.append(memory.count - before)
    assert counts == [3, 2]
    assert memory.emptied == 1
    assert any("cudnn.benchmark" in each.text for each in device.assumptions)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        '{"environment": {"capability": [9, 0]}, "rows": [1]}',
        '{"environment": {"capability": [9, 0]}, "rows": ["a f32 1 2 3"]}',
    ],
)
def test_a_file_that_is_no_calibration_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "other.json"
    path.write_text(text)
    with pytest.raises(InputError, match="not a calibration"):
        load_table(path)


def test_rows_by_column_are_the_same_rows() -> None:
    rows = [
        "c3,64,1,7x7,2x2,3x3,1x1,224x224 f32 8 c16 0 w8",
        "c3,64,1,7x7,2x2,3x3,1x1,224x224 f32 16 c16 0 0",
        "c3,64,1,7x7,2x2,3x3,1x1,112x224 bf16-last 16 0 c16 0",
        "c3,64,1,3,1,0,1,96 bf16-last 16 0 c16 0",
        "t64,3,1,2x2,2x2,0x0,1x1,56x56,1x0 f16 1 0 0 0",
        "c3,64,1,3,1,0,1,96 bf16-last 16 0 c16 0",
    ]
    columns = in_columns(rows)
    assert rows_of_columns(columns) == rows
    assert columns[0] == "c3,64,1;;;;t64,3,1;c3,64,1"
    assert list(Table(ENVIRONMENT, rows_of_columns(columns)).rows()) == rows[:5]


def test_calibrate_needs_a_gpu(capsys: pytest.CaptureFixture[str]) -> None:
    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    assert calibrate.main([]) == 4
    assert "torch finds none here" in capsys.readouterr().err


def test_the_shapes_of_a_calibration_are_the_same_everywhere() -> None:
    first = list(islice(drawn(), 200))
    assert first == list(islice(drawn(), 200))
    assert all(Convolution.named(x.key(), x.setting(), x.batch) == x for x in first)


@pytest.mark.parametrize(
    ("row", "kind", "engine", "expected"),
    [
        ("c32,64,1,5x5,1x1,2x2,1x1,4x4 f32 128", "weight", 18, 28_835_840),
        ("c72,144,3,11x11,1x1,5x5,1x1,8x8 f32 3", "forward", 3, 33_799_728),
        ("c3,50,1,9x9,1x1,4x4,1x1,32x32 f32 512", "data", 50, 236_844_544),
        ("c3,64,1,9x9,1x1,4x4,1x1,96x96 f32-last 48", "data", 50, 147_444_496),
        ("c256,256,1,3x3,1x1,1x1,1x1,7x7 f32 10", "weight", 17, 12_386_304),
        ("c32,128,1,5x5,1x1,2x2,1x1,32x32 f32 1", "weight", 17, 30_457_856),
        ("c128,32,1,3x3,1x1,1x1,1x1,2x2 bf16 20", "data", 7, 1_327_104),
        ("c384,384,1,1x1,1x1,0x0,1x1,28x28 bf16 32", "weight", 62, 18_874_368),
        ("c768,768,768,5x5,1x1,2x2,1x1,5x5 f16-last 32", "weight", 16, 19_660_800),
    ],
)
def test_workspaces_of_algorithms_that_only_a_gpu_offers(
    row: str, kind: Kind, engine: int, expected: int
) -> None:
    """As cuDNN 9.19 answered on an H200."""
    key, setting, batch = row.split()
    computed = as_computed(Convolution.named(key, setting, int(batch)), kind)
    assert engine_bytes(engine_name(kind, engine), computed) == expected


def test_a_product_that_cudnn_would_leave_to_cublas(monkeypatch: pytest.MonkeyPatch) -> None:
    """Recorded: without a GPU, cuDNN names another algorithm, which would copy both tensors."""
    plan = Plan(33, 34_242_704, {2: 0})
    monkeypatch.setattr(cudnn, "ask", lambda *_: plan)
    product = Convolution.named("c352,1408,1,1x1,1x1,0x0,1x1,9x9", "f16", 63)
    found = workspace.workspace(product, "weight", H200)
    assert found.size_bytes == 63 * 352 * 1408 * 4


def test_measurements_do_not_hold_for_other_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without TF32, cuDNN takes algorithms that need no tensor cores."""
    asked = []

    def ask(*arguments: object) -> Plan:
        asked.append(arguments[3])
        return Plan(70, 0)

    monkeypatch.setattr(cudnn, "ask", ask)
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", False)
    settings = cudnn.current_settings(torch.float32)
    found = workspace.workspace(a_convolution(), "forward", H200, settings)
    assert found.certainty != "exact"
    assert asked == [settings]
    assert cudnn.current_settings(torch.bfloat16) == cudnn.DEFAULT_SETTINGS


def test_the_band_of_a_guess_covers_the_other_algorithm(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two algorithms are about as likely: the larger one may raise the peak."""
    monkeypatch.setattr(cudnn, "ask", lambda *_: Plan(70, 0))
    unclear = choice.Choice(size_bytes=0, other_bytes=64 << 20, share=0.6)
    monkeypatch.setattr(choice, "choose", lambda *_: unclear)
    found = workspace.workspace(a_convolution(33, 72), "weight", H200)
    assert (found.certainty, found.may_be_bytes) == ("guess", 64 << 20)
    clear = replace(unclear, share=0.9)
    monkeypatch.setattr(choice, "choose", lambda *_: clear)
    workspace.workspace.cache_clear()
    assert workspace.workspace(a_convolution(33, 72), "weight", H200).certainty == "fitted"
