"""Rarer parts of torch that ask for CUDA: properties, profilers, TorchScript, pickles."""

from __future__ import annotations

import inspect
import pickle

import pytest
import torch
from counting_memory import CARD
from gpumemprof.errors import Error
from gpumemprof.estimate.engine import session
from gpumemprof.estimate.engine.failures import CannotEstimate
from gpumemprof.estimate.process.ending import EnoughSteps, StepLimit
from torch.profiler import ProfilerActivity

# Before an estimate replaces them.
ASKED = [
    "memory_allocated",
    "max_memory_allocated",
    "memory_reserved",
    "max_memory_reserved",
    "memory_stats",
    "memory_stats_as_nested_dict",
    "mem_get_info",
    "reset_peak_memory_stats",
    "reset_accumulated_memory_stats",
    "memory_summary",
    "get_device_name",
    "get_device_properties",
    "get_device_capability",
    "synchronize",
    "current_stream",
    "default_stream",
    "utilization",
    "temperature",
    "set_device",
    "get_rng_state",
    "list_gpu_processes",
    "device_memory_used",
    "host_memory_stats",
    "get_per_process_memory_fraction",
    "set_per_process_memory_fraction",
    "can_device_access_peer",
    "caching_allocator_alloc",
    "set_stream",
    "set_sync_debug_mode",
]
SIGNATURES = {
    name: inspect.signature(getattr(torch.cuda, name))
    for name in ASKED
    if hasattr(torch.cuda, name)
}


def test_functions_of_torch_cuda_take_their_arguments_by_name(estimate):
    values = {
        "device": "cuda:0",
        "peer_device": 0,
        "fraction": 0.5,
        "size": 512,
        "stream": torch.cuda.default_stream(),
        "debug_mode": "warn",
    }
    for name, signature in SIGNATURES.items():
        names = [each for each in signature.parameters if each in values]
        assert names or not signature.parameters, name
        getattr(torch.cuda, name)(**{each: values[each] for each in names})


def test_what_torch_says_about_its_memory_is_predicted(estimate, memory):
    held = torch.ones(1 << 18, device="cuda")
    assert torch.cuda.memory_allocated(device=held.device) == held.nbytes
    assert torch.cuda.mem_get_info(device=0)[1] == 1 << 30
    torch.cuda.set_per_process_memory_fraction(fraction=0.5, device=0)
    assert "PyTorch CUDA memory summary, device ID 0" in torch.cuda.memory_summary(device=0)
    assert torch.cuda.memory_snapshot() == []
    stated = {each.text for each in estimate.assumptions}
    assert stated == {"torch.cuda's memory snapshot is empty in an estimate"}
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    assert start.elapsed_time(end_event=end) > 0


def test_steps_before_a_graph_do_not_count_and_its_replays_do(estimate):
    seen = []
    limit = StepLimit(2, seen.append, lambda: seen.append("end"))
    weights = torch.ones(4, device="cuda", requires_grad=True)
    optimizer = torch.optim.SGD([weights], lr=0.1)

    def step():
        limit.before_step(optimizer)
        optimizer.step()
        limit.after_step(optimizer)

    with torch.cuda.stream(torch.cuda.Stream()):
        for _ in range(11):
            step()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    assert seen == []
    graph.replay()
    with pytest.raises(EnoughSteps):
        graph.replay()
    assert seen == [1, 2, "end"]


def test_a_program_that_trains_on_its_own_stream_ends_too(estimate):
    seen = []
    limit = StepLimit(2, seen.append, lambda: seen.append("end"))
    optimizer = torch.optim.SGD([torch.ones(4, device="cuda", requires_grad=True)], lr=0.1)
    with torch.cuda.stream(torch.cuda.Stream()), pytest.raises(EnoughSteps):
        for _ in range(100):
            limit.after_step(optimizer)
    assert seen == [1, 2, "end"]


def test_properties_have_every_name_of_this_release(estimate):
    found = torch.cuda.get_device_properties(0)
    assert (found.name, found.major, found.total_memory) == ("Test card", 9, 1 << 30)
    assert found.max_threads_per_multi_processor == 2048
    kind = getattr(torch._C, "_CudaDeviceProperties", object)
    for name in dir(kind):
        if not name.startswith("_"):
            getattr(found, name)
    with pytest.raises(AttributeError):
        _ = found.no_such_thing
    assert repr(found).startswith("_CudaDeviceProperties(name='Test card', major=9")


def test_the_runtime_answers_what_programs_ask(estimate, memory):
    held = torch.ones(1000, device="cuda")
    runtime = torch.cuda.cudart()
    free, total = runtime.cudaMemGetInfo(0)
    assert (free, total) == ((1 << 30) - held.nbytes, 1 << 30)
    torch.cuda.check_error(runtime.cudaProfilerStart())
    torch.cuda.check_error(runtime.cudaHostRegister(0, 0, 0))
    with pytest.raises(AttributeError):
        runtime.cudaLaunchKernel()


def test_gradients_cannot_be_checked_and_are_taken_to_be_right(estimate):
    inputs = torch.randn(4, 4, dtype=torch.double, device="cuda", requires_grad=True)
    assert torch.autograd.gradcheck(lambda x: (x * x).sum(), inputs)
    assert torch.autograd.gradgradcheck(lambda x: (x * x).sum(), (inputs,))
    stated = {each.text for each in estimate.assumptions if each.kind == "execution"}
    assert stated == {"gradcheck compares values; it was taken to succeed, and called once"}


def test_old_types_make_tensors_and_change_them(estimate, memory):
    made = torch.cuda.FloatTensor(3, 4)
    assert isinstance(made, torch.cuda.FloatTensor)
    assert not isinstance(made, torch.cuda.HalfTensor)
    assert made.type(torch.cuda.HalfTensor).dtype == torch.float16
    assert torch.zeros(3).type("torch.cuda.LongTensor").is_cuda
    assert memory.sizes == [48, 24, 24]


def test_a_profiler_of_cuda_measures_the_cpu(estimate, capfd):
    both = [ProfilerActivity.CPU, ProfilerActivity.CUDA]
    with torch.profiler.profile(activities=both, record_shapes=True) as found:
        torch.ones(8, 8, device="cuda").sum()
    with torch.autograd.profiler.emit_nvtx(), torch.cuda.nvtx.range("part"):
        torch.ones(3, device="cuda")
        torch.nn.Linear(4, 4).cuda()
    assert any("sum" in each.key for each in found.key_averages())
    assert "CUPTI" not in capfd.readouterr().err


def test_scripts_run_eagerly(estimate):
    @torch.jit.script
    def twice(x):
        return x * 2

    model = torch.jit.trace(torch.nn.Linear(4, 4, device="cuda"), torch.ones(2, 4, device="cuda"))
    assert twice(model(torch.ones(2, 4, device="cuda"))).shape == (2, 4)
    along = torch.func.jvp(torch.special.log_ndtr, *[(torch.ones(3, device="cuda"),)] * 2)
    assert along[1].shape == (3,)
    stated = {each.text for each in estimate.assumptions if each.kind == "execution"}
    assert stated == {"TorchScript was skipped: the estimate is of the eager program"}


def test_a_pickled_tensor_comes_back_to_its_device(estimate, memory):
    tensor = torch.ones(3, device="cuda", requires_grad=True)
    again = pickle.loads(pickle.dumps(tensor))
    assert (again.device.type, again.requires_grad, memory.sizes) == ("cuda", True, [12, 12])


def test_plans_of_fourier_transforms_are_not_asked_of_the_driver(estimate):
    torch.backends.cuda.cufft_plan_cache.max_size = 8
    torch.backends.cuda.cufft_plan_cache[0].clear()
    assert torch.backends.cuda.cufft_plan_cache.max_size == 8


def test_sparse_tensors_move_and_multiply(estimate, memory):
    indices = torch.tensor([[0, 1, 1], [2, 0, 2]])
    sparse = torch.sparse_coo_tensor(indices, torch.ones(3), (2, 3)).cuda()
    assert memory.sizes == [48, 12]
    weight = torch.ones(3, 4, device="cuda", requires_grad=True)
    torch.sparse.mm(sparse, weight).sum().backward()
    assert weight.grad.shape == (3, 4)
    assert sparse.to_dense().shape == (2, 3)
    assert sparse.coalesce().values().shape == (3,)


def test_flex_attention_keeps_its_result_and_one_number_per_row(estimate, memory):
    flex = pytest.importorskip("torch.nn.attention.flex_attention")
    query = torch.ones(1, 2, 16, 8, device="cuda", dtype=torch.float16, requires_grad=True)
    before = memory.allocated_bytes
    result = flex.flex_attention(query, query, query)
    assert memory.allocated_bytes - before == 2 * 16 * 8 * 2 + 2 * 16 * 4
    result.sum().backward()
    assert query.grad.shape == query.shape


def test_an_exported_model_is_the_model_itself(estimate, memory):
    model = torch.nn.Linear(8, 8).cuda()
    x = torch.ones(2, 8, device="cuda")
    exported = torch.export.export(model, (x,))
    assert exported.run_decompositions().module() is model
    assert list(exported.state_dict) == ["weight", "bias"]
    torch.export.save(exported, "never written.pt2")
    assert torch.export.load("never written.pt2") is exported
    with pytest.raises(CannotEstimate, match="does not compile models ahead of time"):
        torch._inductor.aoti_compile_and_package(exported)
    with pytest.raises(CannotEstimate, match="no graph_module of this one; call the model itself"):
        _ = exported.graph_module
    torch.onnx.export(model, (x, {}), "never written.onnx")
    torch.onnx.export(model, x, "never written.onnx", kwargs={})
    texts = [each.text for each in estimate.device.assumptions]
    assert "torch.export was skipped: the estimate is of the eager program" in texts
    assert "no ONNX file is written" in texts


def test_a_card_that_this_torch_does_not_know_is_a_sentence(monkeypatch, memory):
    def refuse():
        raise RuntimeError("cuDNN is not compatible with devices with SM < 7.5")

    monkeypatch.setattr(torch.backends.cudnn, "version", refuse)
    with pytest.raises(Error, match=r"does not run on the .*capability is 9\.0; predict with"):
        session.begin(CARD, memory=memory)
    assert session.active() is None


def test_lazy_modules_get_their_parameters_with_the_first_batch(estimate, memory):
    lazy = [torch.nn.LazyConv2d(4, 3), torch.nn.LazyBatchNorm2d(), torch.nn.LazyLinear(8)]
    model = torch.nn.Sequential(*lazy[:2], torch.nn.Flatten(), lazy[2]).cuda()
    assert memory.sizes == [8]  # the number of batches
    assert all(torch.nn.parameter.is_lazy(each) for each in model.parameters())
    with pytest.raises(ValueError, match="uninitialized parameter"):
        model[0].weight + 1
    weight = model[3].weight
    assert model(torch.ones(2, 3, 6, 6, device="cuda")).shape == (2, 8)
    assert model[3].weight is weight
    assert (weight.shape, weight.device.type, weight.requires_grad) == ((8, 64), "cuda", True)
    assert all(isinstance(each, torch.nn.Parameter) for each in model.parameters())
    assert model[1].running_mean.shape == (4,)
    assert 8 * 64 * 4 in memory.sizes
    torch.optim.Adam(model.parameters())
    half = torch.nn.LazyLinear(8).to("cuda", torch.float16)
    assert half(torch.ones(2, 5, device="cuda", dtype=torch.float16)).dtype == torch.float16
    made = torch.nn.LazyLinear(8, device="cuda", dtype=torch.float64)
    assert made(torch.ones(2, 5, device="cuda").double()).dtype == torch.float64
    on_cpu = torch.nn.LazyLinear(8).double().cuda().cpu()
    assert on_cpu(torch.ones(2, 5).double()).device.type == "cpu"


def test_an_end_is_not_raised_where_torch_lets_no_exception_through(estimate):
    # C++ asks for the device of a tensor in functions from which nothing may be thrown.
    matrix = torch.ones(4, 4, device="cuda", requires_grad=True)
    session.end_at_next_operation(EnoughSteps)
    try:
        with pytest.raises(EnoughSteps):
            (matrix @ matrix).sum()
        assert matrix.device.type == "cuda"
    finally:
        session.end_at_next_operation(None)
    assert (matrix @ matrix).shape == (4, 4)


def test_operators_that_call_functions_are_followed(estimate, memory):
    x = torch.ones(8, 64, device="cuda")
    condition = torch.ops.higher_order.cond
    known = torch.tensor(True, device="cuda")
    found = condition(known, lambda a: torch.cat([a, a]), lambda a: a, (x,))
    assert found.shape == (16, 64)
    assert memory.sizes[-1] == 2 * x.nbytes


@pytest.mark.skipif(
    not hasattr(torch.ops.higher_order, "run_dtensor_rng_op"), reason="of newer releases"
)
def test_random_numbers_of_distributed_tensors_are_drawn(estimate, memory):
    x = torch.ones(8, 64, device="cuda")
    draw = torch.ops.higher_order.run_dtensor_rng_op
    assert draw(0, 4, torch.ops.aten.uniform_.default, x, 0.0, 1.0) is x
    assert memory.sizes == [x.nbytes]
