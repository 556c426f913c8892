"""Runs without backward, recorded live: what memory is for, and what reduces it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Callable

import gpumemprof
import pytest

torch = pytest.importorskip("torch")
nn = torch.nn

WIDTH, HEADS, LAYERS, WORDS = 64, 4, 3, 50
MARK = 777_001  # bytes of a block that marks a moment


class GrowingKeys:
    """Keys and values that grow by torch.cat, like DynamicCache; with an unknown name."""

    def __init__(self) -> None:
        self.pairs: list[tuple[Any, Any]] = []

    def put(self, layer: int, key: Any, value: Any) -> tuple[Any, Any]:
        if layer == len(self.pairs):
            self.pairs.append((key.contiguous(), value.contiguous()))
        else:
            old_key, old_value = self.pairs[layer]
            grown = torch.cat([old_key, key], dim=2), torch.cat([old_value, value], dim=2)
            self.pairs[layer] = grown
        return self.pairs[layer]

    def tensors(self) -> list[Any]:
        return [tensor for pair in self.pairs for tensor in pair]


class FixedKeys:
    """Keys and values of a fixed size; with an unknown name."""

    def __init__(self) -> None:
        self.pairs = [self.made() for _ in range(LAYERS)]
        self.used = [0] * LAYERS

    def made(self) -> tuple[Any, Any]:
        shape = (4, HEADS, 64, WIDTH // HEADS)
        return torch.zeros(shape), torch.zeros(shape)

    def put(self, layer: int, key: Any, value: Any) -> tuple[Any, Any]:
        start, self.used[layer] = self.used[layer], self.used[layer] + key.shape[2]
        keys, values = self.pairs[layer]
        keys[:, :, start : self.used[layer]] = key
        values[:, :, start : self.used[layer]] = value
        return keys[:, :, : self.used[layer]], values[:, :, : self.used[layer]]

    def tensors(self) -> list[Any]:
        return [tensor for pair in self.pairs for tensor in pair]


class StaticCache(FixedKeys):
    """The same, under the name it has in other packages."""

    def __init__(self) -> None:
        super().__init__()


class LazyKeys(FixedKeys):
    """The same, created when the model first needs them."""

    def __init__(self) -> None:
        self.pairs = []
        self.used = [0] * LAYERS

    def put(self, layer: int, key: Any, value: Any) -> tuple[Any, Any]:
        if layer == len(self.pairs):
            self.pairs.append(self.made())
        return super().put(layer, key, value)


class Layer(nn.Module):
    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number
        self.norm = nn.LayerNorm(WIDTH)
        self.query, self.key, self.value = (nn.Linear(WIDTH, WIDTH) for _ in range(3))
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x: Any, cache: Any) -> Any:
        batch, length, _ = x.shape
        normed = self.norm(x)

        def heads(projection: nn.Module) -> Any:
            return projection(normed).view(batch, length, HEADS, -1).transpose(1, 2)

        key, value = cache.put(self.number, heads(self.key), heads(self.value))
        mixed = nn.functional.scaled_dot_product_attention(heads(self.query), key, value)
        x = x + mixed.transpose(1, 2).reshape(batch, length, WIDTH)
        return x + self.down(nn.functional.gelu(self.up(x)))


class Decoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(WORDS, WIDTH)
        self.layers = nn.ModuleList(Layer(number) for number in range(LAYERS))
        self.head = nn.Linear(WIDTH, WORDS, bias=False)

    def forward(self, ids: Any, cache: Any) -> Any:
        x = self.words(ids)
        for layer in self.layers:
            x = layer(x, cache)
        return self.head(x[:, -1])


def generate(model: Any, cache: Any, marks: bool = True) -> Any:
    ids = torch.randint(0, WORDS, (4, 40))
    with torch.no_grad():
        for _ in range(12):
            logits = model(ids, cache)
            ids = logits.argmax(-1, keepdim=True)
    if marks:
        torch.empty(MARK, dtype=torch.uint8)
    return cache


def storage_bytes(tensors: Any) -> int:
    storages = [tensor.untyped_storage() for tensor in tensors]
    return sum({storage.data_ptr(): storage.nbytes() for storage in storages}.values())


def record(path: Path, program: Callable[[], Any]) -> tuple[Any, Any]:
    with gpumemprof.record(path, cpu=True):
        result = program()
    recording = gpumemprof.load(path)
    return recording, result


def device_of(recording: Any, **options: Any) -> dict[str, Any]:
    (device,) = recording.report(**options)["devices"]
    return dict(device)


def at_mark(recording: Any) -> dict[str, int]:
    """What each source held when the mark was made."""
    pa = pytest.importorskip("pyarrow")
    rows = pa.table(recording.allocations).to_pydict()
    (event,) = (
        birth for birth, size in zip(rows["alloc_event"], rows["requested_bytes"]) if size == MARK
    )
    return dict(device_of(recording, at=event - 1)["at"]["sources"])


def test_a_cache_that_grows_by_copies_is_told_from_activations(tmp_path):
    model = Decoder()
    recording, cache = record(tmp_path / "a.gmp", lambda: generate(model, GrowingKeys()))
    device = device_of(recording)
    assert device["run_kind"] == "inference"
    held = at_mark(recording)
    assert held["kv_cache"] == storage_bytes(cache.tensors())
    assert held["gradients"] == held["optimizer_state"] == 0
    assert device["sources"]["activations"]["bytes_max"] > 0


@pytest.mark.parametrize("kind", [StaticCache, LazyKeys])
def test_a_static_cache_is_known_by_its_class_or_by_being_kept(tmp_path, kind):
    recording, cache = record(tmp_path / "a.gmp", lambda: generate(Decoder(), kind()))
    assert device_of(recording)["run_kind"] == "inference"
    assert at_mark(recording)["kv_cache"] == storage_bytes(cache.tensors())


def test_a_tag_names_a_cache(tmp_path):
    def program() -> Any:
        with gpumemprof.tag("kv_cache"):
            keys = FixedKeys()
        return generate(Decoder(), keys)

    recording, cache = record(tmp_path / "a.gmp", program)
    assert at_mark(recording)["kv_cache"] == storage_bytes(cache.tensors())


def sample_by_diffusion() -> None:
    model = nn.Sequential(nn.Conv2d(3, 16, 3, padding=1), nn.SiLU(), nn.Conv2d(16, 3, 3, padding=1))
    x = torch.randn(2, 3, 32, 32)
    with torch.no_grad():
        for _ in range(8):
            noise = model(x)
            x = x - 0.1 * noise + 0.01 * torch.randn_like(x)


def encode_in_batches() -> None:
    layer = nn.TransformerEncoderLayer(32, 4, 64, batch_first=True)
    model = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False).eval()
    found = []
    with torch.inference_mode():
        for _ in range(6):
            batch = torch.randn(4, 16, 32)
            found.append(model(batch).mean(1))


def evaluate() -> None:
    model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10)).eval()
    right = 0
    with torch.inference_mode():
        for _ in range(6):
            x, y = torch.randn(32, 64), torch.randint(0, 10, (32,))
            right += int((model(x).argmax(-1) == y).sum())


@pytest.mark.parametrize("program", [sample_by_diffusion, encode_in_batches, evaluate])
def test_other_inference_has_no_cache_and_keeps_nothing_for_backward(tmp_path, program):
    recording, _ = record(tmp_path / "a.gmp", program)
    device = device_of(recording)
    assert device["run_kind"] == "inference"
    assert device["sources"]["kv_cache"]["bytes_max"] == 0
    assert device["sources"]["gradients"]["bytes_max"] == 0
    assert device["sources"]["activations"]["bytes_max"] > 0
    phases = [phase for step in device["steps"] for phase in step["phases"]]
    assert all(phase["saved_for_backward_bytes"] is None for phase in phases)
    advice = recording.advise()
    assert "backward" not in json.dumps(advice["remedies"])


def train(model: Any, steps: int = 4, evaluates: bool = False) -> None:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(steps):
        optimizer.zero_grad()
        model(torch.randn(16, 64)).square().mean().backward()
        optimizer.step()
        if evaluates:
            with torch.no_grad():
                model(torch.randn(16, 64)).sum().item()


def perceptron() -> Any:
    return nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))


def test_training_with_evaluation_stays_training(tmp_path):
    recording, _ = record(tmp_path / "a.gmp", lambda: train(perceptron(), evaluates=True))
    assert device_of(recording)["run_kind"] == "training"


def test_inference_before_training_is_training(tmp_path):
    def program() -> None:
        model = perceptron()
        with torch.no_grad():
            for _ in range(6):
                model(torch.randn(16, 64))
        train(model)

    recording, _ = record(tmp_path / "a.gmp", program)
    assert device_of(recording)["run_kind"] == "training"


def test_a_run_that_ended_in_its_first_forward_is_not_called_inference(oom_run):
    device = device_of(oom_run)
    assert device["run_kind"] == "unknown"
    assert device["sources"]["activations"]["bytes_at_peak"] > 10 * 2**30
    phases = [phase for step in device["steps"] for phase in step["phases"]]
    assert all(phase["saved_for_backward_bytes"] is None for phase in phases)


def remedies_of(recording: Any) -> dict[str, dict[str, Any]]:
    return {remedy["name"]: remedy for remedy in recording.advise()["remedies"]}


def test_remedies_of_inference_are_predicted_from_the_recorded_bytes(tmp_path):
    recording, _ = record(tmp_path / "a.gmp", lambda: generate(Decoder(), GrowingKeys(), False))
    device = device_of(recording)
    remedies = remedies_of(recording)
    assert {"half_precision", "int8_weights", "int4_weights", "quantized_kv_cache"} <= set(remedies)
    assert {"static_cache", "paged_attention", "shorter_prompts", "smaller_batch"} <= set(remedies)
    text = json.dumps(list(remedies.values()))
    assert "backward" not in text and "optimizer" not in text and "micro" not in text
    weights = device["sources"]["parameters"]["bytes_at_peak"]
    int8 = remedies["int8_weights"]
    # A weight of four bytes becomes one byte, plus a scale.
    saved = device["peak"]["allocated_bytes"] - int8["predicted_peak_allocated_bytes"]
    assert 0.7 * weights < saved < 0.75 * weights


def test_half_precision_takes_what_was_predicted(tmp_path):
    def run(model: Any, name: str) -> Any:
        recording, _ = record(tmp_path / name, lambda: generate(model, GrowingKeys(), marks=False))
        return recording

    predicted = remedies_of(run(Decoder(), "full.gmp"))["half_precision"]
    band = predicted["predicted_peak_allocated_band"]
    half = device_of(run(Decoder().to(torch.bfloat16), "half.gmp"))
    assert band["low_bytes"] <= half["peak"]["allocated_bytes"] <= band["high_bytes"]


def test_half_precision_is_no_remedy_for_half_precision(tmp_path):
    model = Decoder().to(torch.bfloat16)
    recording, _ = record(tmp_path / "a.gmp", lambda: generate(model, GrowingKeys()))
    remedy = remedies_of(recording)["half_precision"]
    assert remedy["predicted_peak_allocated_bytes"] is None
    assert "already" in remedy["why"]


def test_a_fit_names_what_fits(tmp_path):
    recording, _ = record(tmp_path / "a.gmp", lambda: generate(Decoder(), GrowingKeys()))
    peak = device_of(recording)["peak"]["allocated_bytes"]
    fit = recording.advise(fit=int(0.7 * peak))["fit"]
    assert fit["is_found"]
    assert fit["predicted_peak_allocated_band"]["high_bytes"] <= 0.7 * peak
    assert [code["name"] for code in fit["code"]] == fit["remedies"]
    assert all(code["how"] for code in fit["code"])


def test_a_run_that_fits_needs_no_remedy(tmp_path):
    recording, _ = record(tmp_path / "a.gmp", lambda: generate(Decoder(), GrowingKeys(), False))
    peak = device_of(recording)["peak"]["allocated_bytes"]
    fit = recording.advise(fit=2 * peak)["fit"]
    assert fit["is_found"] and fit["remedies"] == []
    assert fit["largest_batch_factor"] > 1.5


def test_where_nothing_fits_the_least_is_named(tmp_path):
    recording, _ = record(tmp_path / "a.gmp", lambda: generate(Decoder(), GrowingKeys(), False))
    fit = recording.advise(fit=1000)["fit"]
    assert not fit["is_found"]
    least = fit["least"]
    assert {"int4_weights", "smaller_batch"} <= set(least["remedies"])
    assert least["limit_bytes"] == least["predicted_peak_allocated_band"]["high_bytes"]
    assert recording.advise(fit=least["limit_bytes"])["fit"]["is_found"]


def test_a_remedy_says_whether_it_changes_results(tmp_path):
    recording, _ = record(tmp_path / "a.gmp", lambda: generate(Decoder(), GrowingKeys(), False))
    costs = {name: remedy["cost"] for name, remedy in remedies_of(recording).items()}
    free = {"static_cache", "paged_attention"}
    assert all(costs[name] == "free" for name in free)
    assert costs.pop("smaller_batch") == "slower"
    assert all(cost == "changes_training" for name, cost in costs.items() if name not in free)


def test_the_text_says_inference_and_nothing_of_training(tmp_path, command):
    recording, _ = record(tmp_path / "a.gmp", lambda: generate(Decoder(), GrowingKeys()))
    text = recording.to_text()
    assert "this run is inference" in " ".join(text.split())
    assert "KV cache" in text
    advice = command("advise", tmp_path / "a.gmp")
    assert advice.returncode == 0
    assert "backward" not in advice.stdout
    assert "Changes results" in advice.stdout and "Changes training" not in advice.stdout
    assert "int4_weights" in advice.stdout


def test_evaluation_is_no_forward_of_the_next_step(tmp_path):
    recording, _ = record(tmp_path / "a.gmp", lambda: train(perceptron(), 4, evaluates=True))
    steps = [step for step in device_of(recording)["steps"] if step["step"] > 0]
    assert [step["step"] for step in steps] == [1, 2, 3, 4]
    for step in steps:
        names = [phase["phase"] for phase in step["phases"] if phase["phase"] != "other"]
        assert names == ["forward", "backward", "evaluation"]


def test_a_teacher_is_part_of_the_forward_it_teaches(tmp_path):
    def program() -> None:
        teacher, student = perceptron(), perceptron()
        optimizer = torch.optim.SGD(student.parameters(), lr=0.1)
        for _ in range(4):
            x = torch.randn(16, 64)
            with torch.no_grad():
                wanted = teacher(x)
            optimizer.zero_grad()
            (student(x) - wanted).square().mean().backward()
            optimizer.step()

    recording, _ = record(tmp_path / "a.gmp", program)
    phases = {p["phase"] for step in device_of(recording)["steps"] for p in step["phases"]}
    assert "evaluation" not in phases
