"""Programs that differ in the optimizer and its state."""

from __future__ import annotations

import contextlib
import copy
from typing import Any

import torch
from torch.nn.functional import cross_entropy

from .reporter import Reporter
from .small_net import Net, batch, train


def adamw(report: Reporter) -> None:
    model = Net()
    train(report, model, torch.optim.AdamW(model.parameters()))


def lbfgs(report: Reporter) -> None:
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
        report([model], [optimizer], [ids, labels])


def step_in_backward(report: Reporter) -> None:
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
        report([model], optimizers.values(), [ids, labels])


def optimizer_reloaded(report: Reporter) -> None:
    model = Net()
    optimizer = torch.optim.AdamW(model.parameters())
    train(report, model, optimizer, steps=6)
    optimizer.load_state_dict(copy.deepcopy(optimizer.state_dict()))
    train(report, model, optimizer, steps=3)


def group_added(report: Reporter) -> None:
    model = Net()
    optimizer = torch.optim.AdamW(model.blocks.parameters())
    train(report, model, optimizer, steps=5)
    model.zero_grad()
    optimizer.add_param_group({"params": [*model.embed.parameters(), *model.head.parameters()]})
    train(report, model, optimizer, steps=3)


def exception_in_the_optimizer(report: Reporter) -> None:
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
            train(report, model, optimizer, steps=1)
        optimizer.zero_grad()


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


def optimizer_of_the_users(report: Reporter) -> None:
    model = Net()
    train(report, model, OwnAdam(model.parameters()), steps=4)


def master_weights(report: Reporter) -> None:
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
        report([model], [optimizer], [ids, labels], masters)
        optimizer.step()
        optimizer.zero_grad()
        with torch.no_grad():
            for master, parameter in zip(masters, model.parameters()):
                parameter.copy_(master)
        report([model], [optimizer], [ids, labels], masters)


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


def late_state(report: Reporter) -> None:
    model = Net()
    train(report, model, Late(model.parameters(), lr=0.01), steps=9)
