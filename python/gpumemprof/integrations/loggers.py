"""The figures in TensorBoard, W&B and MLflow, through their own loggers.

::

    from gpumemprof.integrations.loggers import to_tensorboard

    log_memory = to_tensorboard(writer)
    for number, batch in enumerate(loader):
        train(batch)
        log_memory(number)
"""

from __future__ import annotations

from typing import Any, Callable

from gpumemprof.errors import UsageError
from gpumemprof.integrations.metrics import MemoryMetrics
from gpumemprof.integrations.missing import missing

__all__ = ["to_mlflow", "to_tensorboard", "to_wandb"]

LogMemory = Callable[[int], None]


def to_tensorboard(writer: Any, device: Any = None) -> LogMemory:
    """A function that writes the figures since its last call, for a step.

    >>> log_memory = to_tensorboard(SummaryWriter("logs"))  # doctest: +SKIP
    >>> log_memory(1)  # doctest: +SKIP

    Args:
        writer: a ``SummaryWriter``, of torch or of tensorboardX.
        device: as for `MemoryMetrics`.

    Raises:
        UsageError: what was given cannot write figures.
    """
    if not hasattr(writer, "add_scalar"):
        raise UsageError(
            f"to_tensorboard() was given {writer!r}, which is not a SummaryWriter",
            "usage",
            hint="pass it the program's torch.utils.tensorboard.SummaryWriter",
        )
    metrics = MemoryMetrics(device)

    def log(step: int) -> None:
        for name, value in metrics.take().items():
            writer.add_scalar(name, value, step)

    return log


def to_wandb(run: Any = None, device: Any = None) -> LogMemory:
    """The same for W&B.

    They join what the program logs for the same step.

    >>> log_memory = to_wandb(wandb.init())  # doctest: +SKIP

    Args:
        run: what ``wandb.init`` returned; the current one by default.
        device: as for `MemoryMetrics`.
    """
    if run is None:
        try:
            import wandb
        except ImportError:
            raise missing("wandb", "to_wandb()") from None
        run = wandb
    metrics = MemoryMetrics(device)

    def log(step: int) -> None:
        run.log(metrics.take(), step=step)

    return log


def to_mlflow(device: Any = None, run_id: str | None = None) -> LogMemory:
    """The same for MLflow, whose names have no brackets: ``memory/max_allocated_GiB``.

    >>> log_memory = to_mlflow()  # doctest: +SKIP

    Args:
        device: as for `MemoryMetrics`.
        run_id: the run to log to; the active one by default.
    """
    try:
        import mlflow
    except ImportError:
        raise missing("mlflow", "to_mlflow()") from None
    metrics = MemoryMetrics(device)

    def log(step: int) -> None:
        figures = metrics.take()
        named = {name.replace("(", "_").replace(")", ""): figures[name] for name in figures}
        mlflow.log_metrics(named, step=step, run_id=run_id)

    return log
