"""Small training programs of many kinds, each reporting at several moments what its tensors hold.

A program is a function that takes a ``Teller``; ``bench/program_sources.py`` records it and
compares the recording with what the program reported. Those in ``SHARDED`` need two processes.
"""

from __future__ import annotations

import contextlib
import copy
import json
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Callable

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.functional import cross_entropy
from torch.utils.checkpoint import checkpoint

__all__ = ["PROGRAMS", "SHARDED", "Teller"]

WORDS, WIDTH, BATCH = 200, 128, 32


def parts_of(tensor: Any) -> list[torch.Tensor]:
    """The dense tensors inside a sharded or sparse one."""
    if hasattr(tensor, "to_local"):
        return parts_of(tensor.to_local())
    if tensor.layout is torch.sparse_coo:
        return [tensor._indices(), tensor._values()]
    return [tensor]


def tensors_in(value: Any) -> list[Any]:
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, (list, tuple)):
        return [tensor for item in value for tensor in tensors_in(item)]
    return []


class Teller:
    """Writes down what each kind of tensor holds now, by storage, each counted once."""

    def __init__(self) -> None:
        self.moments: list[dict[str, int]] = []

    def __call__(
        self,
        models: Iterable[nn.Module] = (),
        optimizers: Iterable[Any] = (),
        inputs: Iterable[Any] = (),
        parameters: Iterable[Any] = (),
        gradients: Iterable[Any] = (),
    ) -> None:
        models = list(models)
        owned = [*parameters, *(p for model in models for p in model.parameters())]
        kinds = {
            "parameters": [*owned, *(b for model in models for b in model.buffers())],
            "gradients": [*gradients, *(p.grad for p in owned if p.grad is not None)],
            "optimizer_state": [
                t for o in optimizers for values in o.state.values() for t in tensors_in(values)
            ],
            "inputs": list(inputs),
        }
        seen: set[int] = set()
        moment: dict[str, int] = {}
        for kind, tensors in kinds.items():
            moment[kind] = 0
            for part in (part for tensor in tensors for part in parts_of(tensor)):
                storage = part.untyped_storage()
                if storage.nbytes() and storage.data_ptr() not in seen:
                    seen.add(storage.data_ptr())
                    moment[kind] += storage.nbytes()
        moment["time_ns"] = time.time_ns()
        self.moments.append(moment)

    def write(self, path: Path) -> None:
        path.write_text(json.dumps(self.moments))


class Net(nn.Module):
    def __init__(self, width: int = WIDTH, layers: int = 3, norm: Any = nn.BatchNorm1d) -> None:
        super().__init__()
        self.embed = nn.Embedding(WORDS, width)
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))
            for _ in range(layers)
        )
        self.norm = norm(width)
        self.head = nn.Linear(width, WORDS, bias=False)

    def forward(self, ids: Any) -> Any:
        x = self.embed(ids)
        for block in self.blocks:
            x = x + block(x)
        return self.head(self.norm(x))


def batch() -> tuple[Any, Any]:
    return torch.randint(0, WORDS, (BATCH,)), torch.randint(0, WORDS, (BATCH,))


def train(
    tell: Teller, model: Any, optimizer: Any, steps: int = 3, forward: Any = None, told: Any = None
) -> None:
    """The simplest loop; reports after backward, after the step and after zeroing."""
    models = [told if told is not None else model]
    for _ in range(steps):
        ids, labels = batch()
        loss = cross_entropy((model if forward is None else forward)(ids), labels)
        loss.backward()
        tell(models, [optimizer], [ids, labels])
        optimizer.step()
        tell(models, [optimizer], [ids, labels])
        optimizer.zero_grad()
        tell(models, [optimizer], [ids, labels])


def adamw(tell: Teller) -> None:
    model = Net()
    train(tell, model, torch.optim.AdamW(model.parameters()))


def averaged_model(tell: Teller) -> None:
    from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

    model = Net()
    average = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(0.9), use_buffers=True)
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(4):
        ids, labels = batch()
        cross_entropy(model(ids), labels).backward()
        tell([model, average], [optimizer], [ids, labels])
        optimizer.step()
        optimizer.zero_grad()
        average.update_parameters(model)
        tell([model, average], [optimizer], [ids, labels])


def gan(tell: Teller) -> None:
    maker = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 256))
    judge = nn.Sequential(nn.Linear(256, 256), nn.LeakyReLU(), nn.Linear(256, 1))
    makers = torch.optim.Adam(maker.parameters())
    judges = torch.optim.Adam(judge.parameters())
    for _ in range(3):
        real, noise = torch.randn(BATCH, 256), torch.randn(BATCH, 64)
        judges.zero_grad()
        fake = maker(noise)
        loss = judge(fake.detach()).mean() - judge(real).mean()
        loss.backward()
        tell([maker, judge], [makers, judges], [real, noise])
        judges.step()
        makers.zero_grad()
        (-judge(fake).mean()).backward()
        tell([maker, judge], [makers, judges], [real, noise])
        makers.step()
        tell([maker, judge], [makers, judges], [real, noise])
        del fake, loss


class Adapted(nn.Module):
    def __init__(self, base: nn.Linear, rank: int = 4) -> None:
        super().__init__()
        self.base = base
        self.down = nn.Parameter(torch.randn(rank, base.in_features) * 0.01)
        self.up = nn.Parameter(torch.zeros(base.out_features, rank))

    def forward(self, x: Any) -> Any:
        return self.base(x) + x @ self.down.T @ self.up.T


def adapters(tell: Teller) -> None:
    model = Net()
    for parameter in model.parameters():
        parameter.requires_grad_(False)
    for block in model.blocks:
        block[0], block[2] = Adapted(block[0]), Adapted(block[2])
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad])
    train(tell, model, optimizer)


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(WORDS, 64)
        self.rnn = nn.LSTM(64, 128, num_layers=2, batch_first=True)
        self.head = nn.Linear(128, WORDS)

    def forward(self, ids: Any) -> Any:
        return self.head(self.rnn(self.embed(ids))[0][:, -1])


def lstm(tell: Teller) -> None:
    model = Recurrent()
    optimizer = torch.optim.Adam(model.parameters())
    for _ in range(3):
        ids, labels = torch.randint(0, WORDS, (BATCH, 20)), torch.randint(0, WORDS, (BATCH,))
        cross_entropy(model(ids), labels).backward()
        tell([model], [optimizer], [ids, labels])
        optimizer.step()
        optimizer.zero_grad()
        tell([model], [optimizer], [ids, labels])


def sparse_embedding(tell: Teller) -> None:
    table = nn.Embedding(2000, 64, sparse=True)
    head = nn.Linear(64, WORDS)
    model = nn.Sequential(table, head)
    optimizers = [
        torch.optim.SparseAdam(table.parameters()),
        torch.optim.AdamW(head.parameters()),
    ]
    for _ in range(3):
        ids, labels = torch.randint(0, 2000, (BATCH,)), torch.randint(0, WORDS, (BATCH,))
        cross_entropy(model(ids), labels).backward()
        tell([model], optimizers, [ids, labels])
        for optimizer in optimizers:
            optimizer.step()
            optimizer.zero_grad()
        tell([model], optimizers, [ids, labels])


def tied_weights(tell: Teller) -> None:
    model = Net()
    model.head.weight = model.embed.weight
    train(tell, model, torch.optim.AdamW(model.parameters()))


def lbfgs(tell: Teller) -> None:
    model = Net()
    optimizer = torch.optim.LBFGS(model.parameters(), max_iter=3, history_size=4)
    for _ in range(3):
        ids, labels = batch()

        def closure(ids: Any = ids, labels: Any = labels) -> Any:
            optimizer.zero_grad()
            loss = cross_entropy(model(ids), labels)
            loss.backward()
            return loss

        optimizer.step(closure)
        tell([model], [optimizer], [ids, labels])


def accumulation(tell: Teller) -> None:
    model = Net()
    optimizer = torch.optim.AdamW(model.parameters())
    for step in range(9):
        ids, labels = batch()
        (cross_entropy(model(ids), labels) / 3).backward()
        tell([model], [optimizer], [ids, labels])
        if step % 3 == 2:
            optimizer.step()
            optimizer.zero_grad()
            tell([model], [optimizer], [ids, labels])


def step_in_backward(tell: Teller) -> None:
    model = Net()
    optimizers = {p: torch.optim.AdamW([p], foreach=False) for p in model.parameters()}

    def step(parameter: Any) -> None:
        optimizers[parameter].step()
        optimizers[parameter].zero_grad()

    for parameter in model.parameters():
        parameter.register_post_accumulate_grad_hook(step)
    for _ in range(3):
        ids, labels = batch()
        cross_entropy(model(ids), labels).backward()
        tell([model], optimizers.values(), [ids, labels])


class Examples(torch.utils.data.Dataset[Any]):
    def __len__(self) -> int:
        return 4 * BATCH

    def __getitem__(self, index: int) -> tuple[Any, int]:
        return torch.randn(3, 16, 16), index % 10


def loader_with_workers(tell: Teller) -> None:
    model = nn.Sequential(
        nn.Conv2d(3, 16, 3), nn.BatchNorm2d(16), nn.ReLU(), nn.Flatten(), nn.Linear(3136, 10)
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    loader = torch.utils.data.DataLoader(Examples(), batch_size=BATCH, num_workers=2)
    for images, labels in loader:
        # Batches from workers are in shared memory, which does not come from the allocator.
        cross_entropy(model(images), labels).backward()
        tell([model], [optimizer])
        optimizer.step()
        optimizer.zero_grad()
        tell([model], [optimizer])


def loader_without_workers(tell: Teller) -> None:
    model = nn.Sequential(nn.Flatten(), nn.Linear(768, 256), nn.ReLU(), nn.Linear(256, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    loader = torch.utils.data.DataLoader(Examples(), batch_size=BATCH)
    for images, labels in loader:
        cross_entropy(model(images), labels).backward()
        tell([model], [optimizer], [images, labels])
        optimizer.step()
        optimizer.zero_grad()
        tell([model], [optimizer], [images, labels])


def bare_tensors(tell: Teller) -> None:
    weights = [torch.randn(WIDTH, WIDTH).mul_(0.1).requires_grad_() for _ in range(4)]
    for _ in range(4):
        x = torch.randn(BATCH, WIDTH)
        y = x
        for weight in weights:
            y = torch.tanh(y @ weight)
        y.square().mean().backward()
        del y
        tell([], [], [x], weights)
        with torch.no_grad():
            for weight in weights:
                weight -= 0.1 * weight.grad
                weight.grad = None
        tell([], [], [x], weights)


def bare_tensors_with_optimizer(tell: Teller) -> None:
    weights = [torch.randn(WIDTH, WIDTH).mul_(0.1).requires_grad_() for _ in range(4)]
    optimizer = torch.optim.Adam(weights)
    for _ in range(4):
        x = torch.randn(BATCH, WIDTH)
        y = x
        for weight in weights:
            y = torch.tanh(y @ weight)
        y.square().mean().backward()
        del y
        tell([], [optimizer], [x], weights)
        optimizer.step()
        optimizer.zero_grad()
        tell([], [optimizer], [x], weights)


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH)
        self.out = nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Any, cache: Any) -> Any:
        q, k, v = self.qkv(x).chunk(3, -1)
        if cache is not None:
            k, v = torch.cat([cache[0], k], 1), torch.cat([cache[1], v], 1)
        scores = torch.softmax(q @ k.transpose(1, 2) / WIDTH**0.5, -1)
        return x + self.out(scores @ v), (k, v)


class Decoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(WORDS, WIDTH)
        self.layers = nn.ModuleList(Attention() for _ in range(3))
        self.head = nn.Linear(WIDTH, WORDS)

    def forward(self, ids: Any, caches: Any = None) -> Any:
        x = self.embed(ids)
        caches = caches or [None] * len(self.layers)
        kept = []
        for layer, cache in zip(self.layers, caches):
            x, cache = layer(x, cache)
            kept.append(cache)
        return self.head(x), kept


def inference_with_cache(tell: Teller) -> None:
    model = Decoder().eval()
    with torch.no_grad():
        ids = torch.randint(0, WORDS, (4, 16))
        caches = None
        for _ in range(12):
            scores, caches = model(ids, caches)
            ids = scores[:, -1:].argmax(-1)
            tell([model], [], [ids])


def compiled(tell: Teller) -> None:
    model = Net()
    optimizer = torch.optim.AdamW(model.parameters())
    train(tell, model, optimizer, steps=4, forward=torch.compile(model, backend="aot_eager"))


def compiled_inductor(tell: Teller) -> None:
    model = Net()
    optimizer = torch.optim.AdamW(model.parameters())
    train(tell, model, optimizer, steps=4, forward=torch.compile(model))


def autocast(tell: Teller) -> None:
    model = Net()
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(3):
        ids, labels = batch()
        with torch.autocast("cpu", torch.bfloat16):
            loss = cross_entropy(model(ids), labels)
        loss.backward()
        tell([model], [optimizer], [ids, labels])
        optimizer.step()
        optimizer.zero_grad()
        tell([model], [optimizer], [ids, labels])


def _checkpointed(tell: Teller, use_reentrant: bool) -> None:
    model = Net()
    optimizer = torch.optim.AdamW(model.parameters())

    def forward(ids: Any) -> Any:
        x = model.embed(ids)
        for block in model.blocks:
            x = x + checkpoint(block, x, use_reentrant=use_reentrant)
        return model.head(model.norm(x))

    train(tell, model, optimizer, forward=forward)


def checkpointed(tell: Teller) -> None:
    _checkpointed(tell, use_reentrant=False)


def checkpointed_reentrant(tell: Teller) -> None:
    _checkpointed(tell, use_reentrant=True)


def functional_call(tell: Teller) -> None:
    model = nn.Sequential(nn.Linear(WIDTH, 2 * WIDTH), nn.Tanh(), nn.Linear(2 * WIDTH, WIDTH))
    weights = {name: p.detach().clone() for name, p in model.named_parameters()}
    momenta = {name: torch.zeros_like(p) for name, p in weights.items()}

    def loss_of(weights: Any, x: Any) -> Any:
        return torch.func.functional_call(model, weights, (x,)).square().mean()

    for _ in range(4):
        x = torch.randn(BATCH, WIDTH)
        gradients = torch.func.grad(loss_of)(weights, x)
        tell([model], [], [x], weights.values(), gradients.values())
        for name, weight in weights.items():
            momenta[name].mul_(0.9).add_(gradients[name])
            weight.sub_(momenta[name], alpha=0.1)
        del gradients
        tell([model], [], [x], weights.values())


def functional_call_trained(tell: Teller) -> None:
    model = Net()
    weights = {name: nn.Parameter(p.detach().clone()) for name, p in model.named_parameters()}
    del model.embed.weight
    model.embed.weight = weights["embed.weight"]
    optimizer = torch.optim.AdamW(list(weights.values()))
    for _ in range(3):
        ids, labels = batch()
        cross_entropy(torch.func.functional_call(model, weights, (ids,)), labels).backward()
        tell([model], [optimizer], [ids, labels], weights.values())
        optimizer.step()
        optimizer.zero_grad()
        tell([model], [optimizer], [ids, labels], weights.values())


def halved_halfway(tell: Teller) -> None:
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    train(tell, model, optimizer, steps=2)
    model.to(torch.bfloat16)
    tell([model], [optimizer])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    tell([model], [optimizer])
    train(tell, model, optimizer, steps=3)


def halved_for_inference(tell: Teller) -> None:
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    train(tell, model, optimizer, steps=2)
    del optimizer
    model.to(torch.bfloat16).eval()
    tell([model])
    with torch.no_grad():
        for _ in range(3):
            ids, labels = batch()
            model(ids)
            tell([model], [], [ids, labels])


def state_assigned(tell: Teller) -> None:
    model = Net()
    optimizer = torch.optim.AdamW(model.parameters())
    train(tell, model, optimizer, steps=2)
    saved = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    model.load_state_dict(saved, assign=True)
    del saved
    optimizer = torch.optim.AdamW(model.parameters())
    train(tell, model, optimizer, steps=3)


def optimizer_reloaded(tell: Teller) -> None:
    model = Net()
    optimizer = torch.optim.AdamW(model.parameters())
    train(tell, model, optimizer, steps=6)
    optimizer.load_state_dict(copy.deepcopy(optimizer.state_dict()))
    train(tell, model, optimizer, steps=3)


def group_added(tell: Teller) -> None:
    model = Net()
    optimizer = torch.optim.AdamW(model.blocks.parameters())
    train(tell, model, optimizer, steps=5)
    model.zero_grad()
    optimizer.add_param_group({"params": [*model.embed.parameters(), *model.head.parameters()]})
    train(tell, model, optimizer, steps=3)


def copied_model(tell: Teller) -> None:
    model = Net()
    optimizer = torch.optim.AdamW(model.parameters())
    train(tell, model, optimizer, steps=2)
    twin = copy.deepcopy(model)
    for _ in range(3):
        ids, labels = batch()
        with torch.no_grad():
            aim = twin(ids)
        nn.functional.mse_loss(model(ids), aim).backward()
        tell([model, twin], [optimizer], [ids, labels])
        optimizer.step()
        optimizer.zero_grad()
        tell([model, twin], [optimizer], [ids, labels])


def exception_in_a_step(tell: Teller) -> None:
    model = Net()
    optimizer = torch.optim.AdamW(model.parameters())
    train(tell, model, optimizer, steps=2)

    class BrokenError(Exception):
        pass

    def breaks(*_: Any) -> None:
        raise BrokenError

    handle = model.blocks[1].register_forward_hook(breaks)
    with contextlib.suppress(BrokenError):
        train(tell, model, optimizer, steps=1)
    handle.remove()
    handle = model.blocks[1][0].weight.register_hook(breaks)
    with contextlib.suppress(BrokenError):
        train(tell, model, optimizer, steps=1)
    handle.remove()
    optimizer.zero_grad()
    train(tell, model, optimizer, steps=2)


def exception_in_the_optimizer(tell: Teller) -> None:
    class Broken(torch.optim.SGD):
        calls = 0

        def step(self, closure: Any = None) -> Any:
            self.calls += 1
            if self.calls == 2:
                raise RuntimeError("broken")
            return super().step(closure)

    model = Net()
    optimizer = Broken(model.parameters(), lr=0.1, momentum=0.9)
    for _ in range(4):
        with contextlib.suppress(RuntimeError):
            train(tell, model, optimizer, steps=1)
        optimizer.zero_grad()


def two_losses(tell: Teller) -> None:
    model = Net()
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(3):
        ids, labels = batch()
        scores = model(ids)
        cross_entropy(scores, labels).backward(retain_graph=True)
        scores.square().mean().backward()
        del scores
        tell([model], [optimizer], [ids, labels])
        optimizer.step()
        optimizer.zero_grad()
        tell([model], [optimizer], [ids, labels])


def gradient_penalty(tell: Teller) -> None:
    model = nn.Sequential(nn.Linear(WIDTH, 2 * WIDTH), nn.Tanh(), nn.Linear(2 * WIDTH, 1))
    optimizer = torch.optim.Adam(model.parameters())
    for _ in range(3):
        x = torch.randn(BATCH, WIDTH, requires_grad=True)
        (slope,) = torch.autograd.grad(model(x).sum(), x, create_graph=True)
        (slope.norm(dim=1) - 1).square().mean().backward()
        del slope
        x.grad = None
        tell([model], [optimizer], [x])
        optimizer.step()
        optimizer.zero_grad()
        tell([model], [optimizer], [x])


def clipped(tell: Teller) -> None:
    model = Net()
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(3):
        ids, labels = batch()
        cross_entropy(model(ids), labels).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        tell([model], [optimizer], [ids, labels])
        optimizer.step()
        optimizer.zero_grad(set_to_none=False)
        tell([model], [optimizer], [ids, labels])


def evaluated_between(tell: Teller) -> None:
    model = Net()
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(3):
        train(tell, model, optimizer, steps=1)
        model.eval()
        outputs = []
        with torch.no_grad():
            for _ in range(3):
                ids, labels = batch()
                outputs.append(model(ids))
        tell([model], [optimizer], [ids, labels])
        del outputs, ids, labels
        model.train()


def data_on_the_device(tell: Teller) -> None:
    ids, labels = torch.randint(0, WORDS, (2000,)), torch.randint(0, WORDS, (2000,))
    model = Net()
    optimizer = torch.optim.AdamW(model.parameters())
    for step in range(3):
        part = slice(step * BATCH, (step + 1) * BATCH)
        cross_entropy(model(ids[part]), labels[part]).backward()
        tell([model], [optimizer], [ids, labels])
        optimizer.step()
        optimizer.zero_grad()
        tell([model], [optimizer], [ids, labels])


class OwnAdam(torch.optim.Optimizer):
    """A user-defined optimizer, with state for the group too."""

    def __init__(self, parameters: Any) -> None:
        super().__init__(parameters, {"lr": 0.01})

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is None:
                    continue
                state = self.state[parameter]
                if not state:
                    state["factors"] = (
                        torch.zeros(parameter.shape[0]),
                        torch.zeros_like(parameter, dtype=torch.bfloat16),
                    )
                state["factors"][1].mul_(0.9).add_(parameter.grad)
                parameter.sub_(state["factors"][1], alpha=group["lr"])


def optimizer_of_the_users(tell: Teller) -> None:
    model = Net()
    train(tell, model, OwnAdam(model.parameters()), steps=4)


def master_weights(tell: Teller) -> None:
    """Trains fp32 copies of bf16 weights, as many mixed-precision loops do."""
    model = Net().to(torch.bfloat16)
    masters = [p.detach().float().requires_grad_() for p in model.parameters()]
    optimizer = torch.optim.AdamW(masters)
    for _ in range(3):
        ids, labels = batch()
        cross_entropy(model(ids).float(), labels).backward()
        for master, parameter in zip(masters, model.parameters()):
            master.grad = parameter.grad.float()
            parameter.grad = None
        tell([model], [optimizer], [ids, labels], masters)
        optimizer.step()
        optimizer.zero_grad()
        with torch.no_grad():
            for master, parameter in zip(masters, model.parameters()):
                parameter.copy_(master)
        tell([model], [optimizer], [ids, labels], masters)


class Smoothed(nn.Module):
    """Rebinds its buffer in every forward."""

    def __init__(self) -> None:
        super().__init__()
        self.net = Net()
        self.register_buffer("mean", torch.zeros(BATCH, WORDS))

    def forward(self, ids: Any) -> Any:
        scores = self.net(ids)
        self.mean = 0.9 * self.mean + 0.1 * scores.detach()
        return scores - self.mean


def moving_buffer(tell: Teller) -> None:
    model = Smoothed()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    for _ in range(12):
        ids, labels = batch()
        cross_entropy(model(ids), labels).backward()
        tell([model], [optimizer], [ids, labels])
        optimizer.step()
        optimizer.zero_grad()
        tell([model], [optimizer], [ids, labels])


class Late(torch.optim.SGD):
    """Replaces its state long after the first steps."""

    steps = 0

    @torch.no_grad()
    def step(self, closure: Any = None) -> Any:
        result = super().step(closure)
        self.steps += 1
        for group in self.param_groups:
            for parameter in group["params"]:
                if self.steps in (1, 6):
                    self.state[parameter]["slow"] = parameter.detach().clone()
        return result


def late_state(tell: Teller) -> None:
    model = Net()
    train(tell, model, Late(model.parameters(), lr=0.01), steps=9)


def _start() -> None:
    if not dist.is_initialized():
        dist.init_process_group("gloo")


def _ddp(tell: Teller, **options: Any) -> None:
    _start()
    model = nn.parallel.DistributedDataParallel(Net(), **options)
    optimizer = torch.optim.AdamW(model.parameters())
    train(tell, model, optimizer, steps=4)


def ddp(tell: Teller) -> None:
    _ddp(tell)


def ddp_bucket_view(tell: Teller) -> None:
    _start()
    model = nn.parallel.DistributedDataParallel(Net(), gradient_as_bucket_view=True)
    optimizer = torch.optim.AdamW(model.parameters())
    views: list[Any] = []
    for _ in range(4):
        ids, labels = batch()
        cross_entropy(model(ids), labels).backward()
        tell([model], [optimizer], [ids, labels], gradients=views)
        optimizer.step()
        # The buckets stay when gradients are freed.
        views = [p.grad for p in model.parameters()]
        optimizer.zero_grad()
        tell([model], [optimizer], [ids, labels], gradients=views)


def ddp_static_graph(tell: Teller) -> None:
    _ddp(tell, static_graph=True)


def ddp_accumulation(tell: Teller) -> None:
    _start()
    model = nn.parallel.DistributedDataParallel(Net(), gradient_as_bucket_view=True)
    optimizer = torch.optim.AdamW(model.parameters())
    views: list[Any] = []
    for step in range(8):
        ids, labels = batch()
        is_last = step % 2 == 1
        with contextlib.nullcontext() if is_last else model.no_sync():
            cross_entropy(model(ids), labels).backward()
        # Without a reduction, gradients are allocated outside the buckets.
        if step > 3:
            tell([model], [optimizer], [ids, labels], gradients=views)
        if is_last:
            views = [p.grad for p in model.parameters()]
            optimizer.step()
            optimizer.zero_grad()
            if step > 3:
                tell([model], [optimizer], [ids, labels], gradients=views)


def zero_redundancy(tell: Teller) -> None:
    from torch.distributed.optim import ZeroRedundancyOptimizer

    _start()
    model = nn.parallel.DistributedDataParallel(Net())
    optimizer = ZeroRedundancyOptimizer(model.parameters(), torch.optim.AdamW)
    for _ in range(4):
        ids, labels = batch()
        cross_entropy(model(ids), labels).backward()
        tell([model], [optimizer.optim], [ids, labels])
        optimizer.step()
        tell([model], [optimizer.optim], [ids, labels])
        optimizer.zero_grad()
        tell([model], [optimizer.optim], [ids, labels])


def _fsdp2(tell: Teller, reshard: bool, mixed: bool = False) -> None:
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

    _start()
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    policy = MixedPrecisionPolicy(torch.bfloat16, torch.float32) if mixed else None
    options = {"mp_policy": policy} if policy else {}
    model = Net(norm=nn.LayerNorm)
    for block in model.blocks:
        fully_shard(block, mesh=mesh, reshard_after_forward=reshard, **options)
    fully_shard(model, mesh=mesh, reshard_after_forward=reshard, **options)
    optimizer = torch.optim.AdamW(model.parameters())
    train(tell, model, optimizer, steps=4)


def fsdp2(tell: Teller) -> None:
    _fsdp2(tell, reshard=True)


def fsdp2_not_resharded(tell: Teller) -> None:
    _fsdp2(tell, reshard=False)


def fsdp2_mixed(tell: Teller) -> None:
    _fsdp2(tell, reshard=True, mixed=True)


def _fsdp1(tell: Teller, use_orig_params: bool) -> None:
    from torch.distributed.fsdp import FullyShardedDataParallel
    from torch.distributed.fsdp.wrap import ModuleWrapPolicy

    _start()
    model = FullyShardedDataParallel(
        Net(),
        auto_wrap_policy=ModuleWrapPolicy({nn.Sequential}),
        use_orig_params=use_orig_params,
        device_id=torch.device("cpu"),
    )
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(4):
        ids, labels = batch()
        cross_entropy(model(ids), labels).backward()
        tell([model], [optimizer], [ids, labels])
        optimizer.step()
        # The flat gradient stays when its views are freed.
        views = [p.grad for p in model.parameters() if p.grad is not None and use_orig_params]
        optimizer.zero_grad()
        tell([model], [optimizer], [ids, labels], gradients=views)
        del views


def fsdp1(tell: Teller) -> None:
    _fsdp1(tell, use_orig_params=False)


def fsdp1_orig_params(tell: Teller) -> None:
    _fsdp1(tell, use_orig_params=True)


Program = Callable[[Teller], None]
SHARDED: dict[str, Program] = {
    program.__name__: program
    for program in (
        ddp,
        ddp_bucket_view,
        ddp_static_graph,
        ddp_accumulation,
        zero_redundancy,
        fsdp2,
        fsdp2_not_resharded,
        fsdp2_mixed,
        fsdp1,
        fsdp1_orig_params,
    )
}
PROGRAMS: dict[str, Program] = {
    program.__name__: program
    for program in (
        adamw,
        averaged_model,
        gan,
        adapters,
        lstm,
        sparse_embedding,
        tied_weights,
        lbfgs,
        accumulation,
        step_in_backward,
        loader_with_workers,
        loader_without_workers,
        bare_tensors,
        bare_tensors_with_optimizer,
        inference_with_cache,
        compiled,
        compiled_inductor,
        autocast,
        checkpointed,
        checkpointed_reentrant,
        functional_call,
        functional_call_trained,
        halved_halfway,
        halved_for_inference,
        state_assigned,
        optimizer_reloaded,
        group_added,
        copied_model,
        exception_in_a_step,
        exception_in_the_optimizer,
        two_losses,
        gradient_penalty,
        clipped,
        evaluated_between,
        data_on_the_device,
        optimizer_of_the_users,
        master_weights,
        moving_buffer,
        late_state,
    )
}
