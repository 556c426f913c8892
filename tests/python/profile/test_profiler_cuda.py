"""GPUMemoryProfiler on a fake device; tests/device covers a real one."""

from __future__ import annotations

import warnings

import gpumemprof
import pytest
from gpumemprof import GPUMemoryProfiler

torch = pytest.importorskip("torch")
if torch.cuda.is_available():
    pytest.skip("there is a real one here", allow_module_level=True)

from fake_cuda import Card, build_library, install  # noqa: E402

MB = 1 << 20


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    return build_library(tmp_path_factory.mktemp("fake"))


@pytest.fixture
def cards(library, monkeypatch):
    made = [Card(0, library), Card(1, library)]
    install(monkeypatch, made)
    return made


def work_of(card):
    def work() -> None:
        large = card.alloc(100 * MB)
        card.free(large)
        small = card.alloc(100)
        card.free(small)

    return work


def test_figures_are_torchs_own_block_sizes(cards):
    kept = cards[0].alloc(10 * MB)
    profiler = GPUMemoryProfiler(device="cuda:0")
    result = profiler.profile_function(work_of(cards[0]))
    assert result.provenance == "measured"
    assert result.memory_allocated == 100 * MB + 512
    assert result.memory_diff() == 0
    assert result.peak_memory_usage() == 110 * MB
    assert result.peak_above_start() == 100 * MB
    assert (result.tensors_created, result.tensors_deleted) == (2, 2)
    assert result.memory_peak.reserved_memory == 110 * MB
    # No tracker reports completed frees here, so active memory at the peak is unknown.
    assert result.memory_peak.active_memory is None
    assert result.memory_before.device_used == 1 << 30
    assert result.memory_before.device_total == 4 << 30
    cards[0].free(kept)


def test_devices_are_counted_apart(cards):
    first, second = GPUMemoryProfiler(0), GPUMemoryProfiler(1)
    with first.profile_context() as one, second.profile_context() as two:
        cards[1].free(cards[1].alloc(8 * MB))
    assert one.result.memory_allocated == 0
    assert two.result.memory_allocated == 8 * MB
    assert two.result.memory_after.device_id == 1


def test_a_device_is_waited_for_at_the_two_ends_and_never_without_asking(cards):
    GPUMemoryProfiler(0).profile_function(work_of(cards[0]))
    assert cards[0].synchronized == 2
    profiler = GPUMemoryProfiler(0, synchronize=False)
    result = profiler.profile_function(work_of(cards[0]))
    assert cards[0].synchronized == 2
    assert result.peak_above_start() == 100 * MB
    assert result.memory_after.device_used is None
    with profiler.profile_context("waits", synchronize=True):
        pass
    assert cards[0].synchronized == 4


def test_nothing_is_waited_for_while_a_graph_is_captured(cards, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: True)
    GPUMemoryProfiler(0).profile_function(work_of(cards[0]))
    assert cards[0].synchronized == 0


def test_work_that_fails_on_the_device_is_the_functions_error(cards, monkeypatch):
    profiler = GPUMemoryProfiler(0, synchronize=False)
    profiler.synchronize = True
    calls = []

    def fail() -> bool:
        calls.append("wait")
        if len(calls) == 2:
            raise RuntimeError("device-side assert")
        return True

    profiler._wait_for_device = fail
    with pytest.raises(RuntimeError, match="device-side"):
        profiler.profile_function(work_of(cards[0]))
    assert profiler.results[-1].error == "RuntimeError: device-side assert"


def test_torchs_peak_counters_stay_as_they_are(cards):
    profiler = GPUMemoryProfiler(0)
    profiler.profile_function(work_of(cards[0]))
    before = {name: dict(stat) for name, stat in cards[0].stats.items()}
    profiler.clear_results()
    profiler.get_summary()
    with profiler:
        profiler.start_monitoring(0.01)
    assert {name: dict(stat) for name, stat in cards[0].stats.items()} == before


def test_the_highest_so_far_starts_with_torchs_own(cards):
    cards[0].free(cards[0].alloc(300 * MB))
    result = GPUMemoryProfiler(0).profile_function(work_of(cards[0]))
    assert result.memory_before.max_memory_allocated == 300 * MB
    assert result.memory_after.max_memory_allocated == 300 * MB
    assert result.peak_memory_usage() == 100 * MB


def test_an_allocator_that_does_not_report_is_caught_and_its_counters_used(monkeypatch, library):
    card = Card(0, None)
    install(monkeypatch, [card])
    profiler = GPUMemoryProfiler(0)
    with pytest.warns(gpumemprof.RecordingWarning, match="does not report"):
        profiler.profile_function(work_of(card))
    assert profiler.results[0].provenance == "estimated"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        result = profiler.profile_function(work_of(card))
    assert result.provenance == "estimated"
    assert "torch's counters" in result.note
    # Gross figures are still exact.
    assert result.memory_allocated == 100 * MB + 512
    assert result.memory_diff() == 0
    assert result.tensors_created == 2


def test_another_allocator_falls_back_to_its_counters(monkeypatch):
    card = Card(0, None)
    install(monkeypatch, [card], backend="cudaMallocAsync")
    profiler = GPUMemoryProfiler(0)
    kept = []
    result = profiler.profile_function(lambda: kept.append(card.alloc(5 * MB)))
    assert result.provenance == "estimated"
    assert "cudaMallocAsync" in result.note
    assert result.memory_diff() == 5 * MB
    assert result.peak_memory_usage() == 5 * MB  # torch's own peak rose, so this is exact
    assert result.tensors_created is None
    assert result.own is None
    with profiler:
        profiler.start_monitoring(0.01)
    assert profiler.snapshots[-1].allocated_memory == 5 * MB


@pytest.mark.parametrize("device", ["cuda:0", 0, torch.device("cuda:0"), None, "cuda"])
def test_every_way_to_name_a_device_works(cards, device):
    assert GPUMemoryProfiler(device=device).device == torch.device("cuda", 0)


@pytest.mark.parametrize(
    "device", [2, "cuda:2", torch.device("cuda", 7), -1, 1 << 40, "cuda:99999"]
)
def test_a_device_that_does_not_exist_is_named_with_those_that_do(cards, device):
    with pytest.raises(ValueError, match="cuda:0 to cuda:1"):
        GPUMemoryProfiler(device=device)


@pytest.mark.parametrize("device", ["mps", "cuda:x", "", True, 1.5, object()])
def test_what_is_not_cuda_is_refused(cards, device):
    with pytest.raises(ValueError, match="is not a CUDA device; there are cuda:0"):
        GPUMemoryProfiler(device=device)


@pytest.mark.parametrize("device", ["cpu", torch.device("cpu")])
def test_the_cpu_has_a_profiler_of_its_own(cards, device):
    with pytest.raises(ValueError, match="CPUMemoryProfiler"):
        GPUMemoryProfiler(device=device)
