"""Programs that differ in the model, or change it in between."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import nn
from torch.nn.functional import cross_entropy

from .reporter import Reporter
from .small_net import BATCH, WIDTH, WORDS, Net, batch, train


def averaged_model(report: Reporter) -> None:
    from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

    model = Net()
    average = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(0.9), use_buffers=True)
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(4):
        ids, labels = batch()
        cross_entropy(model(ids), labels).backward()
        report([model, average], [optimizer], [ids, labels])
        optimizer.step()
        optimizer.zero_grad()
        average.update_parameters(model)
        report([model, average], [optimizer], [ids, labels])


def gan(report: Reporter) -> None:
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
        report([maker, judge], [makers, judges], [real, noise])
        judges.step()
        makers.zero_grad()
        (-judge(fake).mean()).backward()
        report([maker, judge], [makers, judges], [real, noise])
        makers.step()
        report([maker, judge], [makers, judges], [real, noise])
        del fake, loss


class Adapted(nn.Module):
    def __init__(self, base: nn.Linear, rank: int = 4) -> None:
        super().__init__()
        self.base = base
        self.down = nn.Parameter(torch.randn(rank, base.in_features) * 0.01)
        self.up = nn.Parameter(torch.zeros(base.out_features, rank))

    def forward(self, x: Any) -> Any:
        return self.base(x) + x @ self.down.T @ self.up.T


def adapters(report: Reporter) -> None:
    model = Net()
    for parameter in model.parameters():
        parameter.requires_grad_(False)
    for block in model.blocks:
        block[0], block[2] = Adapted(block[0]), Adapted(block[2])
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad])
    train(report, model, optimizer)


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(WORDS, 64)
        self.rnn = nn.LSTM(64, 128, num_layers=2, batch_first=True)
        self.head = nn.Linear(128, WORDS)

    def forward(self, ids: Any) -> Any:
        return self.head(self.rnn(self.embed(ids))[0][:, -1])


def lstm(report: Reporter) -> None:
    model = Recurrent()
    optimizer = torch.optim.Adam(model.parameters())
    for _ in range(3):
        ids, labels = torch.randint(0, WORDS, (BATCH, 20)), torch.randint(0, WORDS, (BATCH,))
        cross_entropy(model(ids), labels).backward()
        report([model], [optimizer], [ids, labels])
        optimizer.step()
        optimizer.zero_grad()
        report([model], [optimizer], [ids, labels])


def sparse_embedding(report: Reporter) -> None:
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
        report([model], optimizers, [ids, labels])
        for optimizer in optimizers:
            optimizer.step()
            optimizer.zero_grad()
        report([model], optimizers, [ids, labels])


def tied_weights(report: Reporter) -> None:
    model = Net()
    model.head.weight = model.embed.weight
    train(report, model, torch.optim.AdamW(model.parameters()))


def bare_tensors(report: Reporter) -> None:
    weights = [torch.randn(WIDTH, WIDTH).mul_(0.1).requires_grad_() for _ in range(4)]
    for _ in range(4):
        x = torch.randn(BATCH, WIDTH)
        y = x
        for weight in weights:
            y = torch.tanh(y @ weight)
        y.square().mean().backward()
        del y
        report([], [], [x], weights)
        with torch.no_grad():
            for weight in weights:
                weight -= 0.1 * weight.grad
                weight.grad = None
        report([], [], [x], weights)


def bare_tensors_with_optimizer(report: Reporter) -> None:
    weights = [torch.randn(WIDTH, WIDTH).mul_(0.1).requires_grad_() for _ in range(4)]
    optimizer = torch.optim.Adam(weights)
    for _ in range(4):
        x = torch.randn(BATCH, WIDTH)
        y = x
        for weight in weights:
            y = torch.tanh(y @ weight)
        y.square().mean().backward()
        del y
        report([], [optimizer], [x], weights)
        optimizer.step()
        optimizer.zero_grad()
        report([], [optimizer], [x], weights)


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


def inference_with_cache(report: Reporter) -> None:
    model = Decoder().eval()
    with torch.no_grad():
        ids = torch.randint(0, WORDS, (4, 16))
        caches = None
        for _ in range(12):
            scores, caches = model(ids, caches)
            ids = scores[:, -1:].argmax(-1)
            report([model], [], [ids])


def functional_call(report: Reporter) -> None:
    model = nn.Sequential(nn.Linear(WIDTH, 2 * WIDTH), nn.Tanh(), nn.Linear(2 * WIDTH, WIDTH))
    weights = {name: p.detach().clone() for name, p in model.named_parameters()}
    momenta = {name: torch.zeros_like(p) for name, p in weights.items()}

    def loss_of(weights: Any, x: Any) -> Any:
        return torch.func.functional_call(model, weights, (x,)).square().mean()

    for _ in range(4):
        x = torch.randn(BATCH, WIDTH)
        gradients = torch.func.grad(loss_of)(weights, x)
        report([model], [], [x], weights.values(), gradients.values())
        for name, weight in weights.items():
            momenta[name].mul_(0.9).add_(gradients[name])
            weight.sub_(momenta[name], alpha=0.1)
        del gradients
        report([model], [], [x], weights.values())


def functional_call_trained(report: Reporter) -> None:
    model = Net()
    weights = {name: nn.Parameter(p.detach().clone()) for name, p in model.named_parameters()}
    del model.embed.weight
    model.embed.weight = weights["embed.weight"]
    optimizer = torch.optim.AdamW(list(weights.values()))
    for _ in range(3):
        ids, labels = batch()
        cross_entropy(torch.func.functional_call(model, weights, (ids,)), labels).backward()
        report([model], [optimizer], [ids, labels], weights.values())
        optimizer.step()
        optimizer.zero_grad()
        report([model], [optimizer], [ids, labels], weights.values())


def halved_halfway(report: Reporter) -> None:
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    train(report, model, optimizer, steps=2)
    model.to(torch.bfloat16)
    report([model], [optimizer])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    report([model], [optimizer])
    train(report, model, optimizer, steps=3)


def halved_for_inference(report: Reporter) -> None:
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    train(report, model, optimizer, steps=2)
    del optimizer
    model.to(torch.bfloat16).eval()
    report([model])
    with torch.no_grad():
        for _ in range(3):
            ids, labels = batch()
            model(ids)
            report([model], [], [ids, labels])


def state_assigned(report: Reporter) -> None:
    model = Net()
    optimizer = torch.optim.AdamW(model.parameters())
    train(report, model, optimizer, steps=2)
    saved = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    model.load_state_dict(saved, assign=True)
    del saved
    optimizer = torch.optim.AdamW(model.parameters())
    train(report, model, optimizer, steps=3)


def copied_model(report: Reporter) -> None:
    model = Net()
    optimizer = torch.optim.AdamW(model.parameters())
    train(report, model, optimizer, steps=2)
    twin = copy.deepcopy(model)
    for _ in range(3):
        ids, labels = batch()
        with torch.no_grad():
            aim = twin(ids)
        nn.functional.mse_loss(model(ids), aim).backward()
        report([model, twin], [optimizer], [ids, labels])
        optimizer.step()
        optimizer.zero_grad()
        report([model, twin], [optimizer], [ids, labels])


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


def moving_buffer(report: Reporter) -> None:
    model = Smoothed()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    for _ in range(12):
        ids, labels = batch()
        cross_entropy(model(ids), labels).backward()
        report([model], [optimizer], [ids, labels])
        optimizer.step()
        optimizer.zero_grad()
        report([model], [optimizer], [ids, labels])
