"""A callback for Lightning: steps, evaluation and saving in the recording, figures in the logger.

::

    from gpumemprof.integrations.lightning import MemoryCallback

    trainer = Trainer(callbacks=[MemoryCallback("run.gmp")])

With ``GPUMEMPROF=1``, every Trainer has one without a change to the program.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
import os
from typing import TYPE_CHECKING, Any, Union

from gpumemprof.hooks.steps import step
from gpumemprof.integrations.metrics import MemoryMetrics
from gpumemprof.integrations.missing import missing
from gpumemprof.integrations.phases import Phases, in_phase
from gpumemprof.integrations.recordings import CallbackRecordings
from gpumemprof.recorder.active import ActiveRecording

__all__ = ["MemoryCallback", "callback_class"]

_Path = Union[str, "os.PathLike[str]"]

# The same package has two names. Each has a class of its own, found by this name when unpickled.
_CLASSES = {
    "MemoryCallback": "lightning.pytorch",
    "PytorchLightningCallback": "pytorch_lightning",
}


def _batches_that_stepped(trainer: Any) -> int:
    """The number under which Lightning itself logs what belongs to this batch.

    The count of optimizer steps is another: a batch may have several.
    """
    loop = getattr(trainer.fit_loop, "epoch_loop", None)
    counted = getattr(loop, "_batches_that_stepped", None)
    return max(0, trainer.global_step - 1) if counted is None else int(counted)


class _MemoryHooks:
    """Marks steps, evaluation and saving in open recordings, and logs a few figures.

    ::

        Trainer(callbacks=[MemoryCallback()])

    Args:
        output: record training, testing and the like to this file; ranks, and whatever the Trainer
            does after that, get names of their own. Not needed under ``gpumemprof run`` or with
            ``GPUMEMPROF=1``, which record the whole program.
        metrics: log the figures, every ``log_every_n_steps`` steps.
        device: the device whose figures are logged; see `MemoryMetrics`.
        options: as for `gpumemprof.start`.
    """

    def __init__(
        self,
        output: _Path | None = None,
        *,
        metrics: bool = True,
        device: Any = None,
        **options: Any,
    ) -> None:
        self._recordings = CallbackRecordings(output, options)
        self._logs = metrics
        self._device = device
        self._metrics: MemoryMetrics | None = None
        self._phases = Phases()
        self._seen_step = 0
        self._is_logged = True
        self._save: Any = None
        self._is_on = True

    @property
    def recording(self) -> ActiveRecording | None:
        """What is being recorded, or was; None without an output."""
        return self._recordings.latest

    def __getstate__(self) -> dict[str, Any]:
        """For trainers that start processes of their own: nothing runs before `setup`."""
        return {**vars(self), "_metrics": None, "_save": None}

    def setup(self, trainer: Any, pl_module: Any, stage: str) -> None:
        # With GPUMEMPROF=1 there may be two; the program's own comes first.
        ours = [one for one in trainer.callbacks if isinstance(one, _MemoryHooks)]
        self._is_on = not ours or ours[0] is self
        if not self._is_on:
            return
        self._recordings.begin(trainer.global_rank, trainer.world_size)
        self._seen_step, self._is_logged = trainer.global_step, True
        if self._logs and self._metrics is None:
            self._metrics = MemoryMetrics(self._device)
        if self._save is None:
            # Callbacks hear of a checkpoint before it is written, and not after.
            self._save = trainer.save_checkpoint
            trainer.save_checkpoint = in_phase("saving", self._save)

    def teardown(self, trainer: Any, pl_module: Any, stage: str) -> None:
        self._end(trainer, "stop")

    def on_exception(self, trainer: Any, pl_module: Any, exception: BaseException) -> None:
        """Then nothing is torn down."""
        self._end(trainer, f"exception: {type(exception).__name__}")

    def _end(self, trainer: Any, reason: str) -> None:
        self._phases.end()
        if self._save is not None:
            vars(trainer).pop("save_checkpoint", None)
            self._save = None
        if self._metrics is not None:
            self._metrics.close()
            self._metrics = None
        self._recordings.end(reason)

    def on_train_batch_start(self, trainer: Any, *_: Any, **__: Any) -> None:
        if self._is_on:
            step()

    def on_train_batch_end(self, trainer: Any, *_: Any, **__: Any) -> None:
        if trainer.global_step == self._seen_step:
            return  # Several batches may belong to one step.
        self._seen_step = trainer.global_step
        number = _batches_that_stepped(trainer)
        self._is_logged = (number + 1) % max(1, trainer.log_every_n_steps) == 0
        if self._is_logged:
            self._log(trainer, number)

    def on_train_end(self, trainer: Any, *_: Any, **__: Any) -> None:
        if not self._is_logged:
            self._is_logged = True
            self._log(trainer, max(0, _batches_that_stepped(trainer) - 1))

    def _log(self, trainer: Any, number: int) -> None:
        if self._metrics is None or not trainer.loggers:
            return
        # Not by self.log(), which makes a tensor of each figure.
        figures = self._metrics.take()
        for logger in trainer.loggers:
            logger.log_metrics(figures, step=number)

    def _begin(self, name: str) -> None:
        if self._is_on:
            self._phases.begin(name)

    def on_validation_start(self, *_: Any, **__: Any) -> None:
        self._begin("evaluation")

    def on_validation_end(self, *_: Any, **__: Any) -> None:
        self._phases.end()

    def on_test_start(self, *_: Any, **__: Any) -> None:
        self._begin("evaluation")

    def on_test_end(self, *_: Any, **__: Any) -> None:
        self._phases.end()

    def on_predict_start(self, *_: Any, **__: Any) -> None:
        self._begin("prediction")

    def on_predict_end(self, *_: Any, **__: Any) -> None:
        self._phases.end()


@functools.cache
def callback_class(package: str) -> Any:
    """The callback for ``lightning.pytorch`` or ``pytorch_lightning``.

    Raises:
        EnvironmentProblem: it is not installed.
    """
    try:
        base = importlib.import_module(package).Callback
    except ImportError:
        raise missing(package.partition(".")[0], "MemoryCallback") from None
    name = next(name for name, known in _CLASSES.items() if known == package)
    return type(
        name, (_MemoryHooks, base), {"__module__": __name__, "__doc__": _MemoryHooks.__doc__}
    )


if TYPE_CHECKING:
    MemoryCallback = _MemoryHooks
else:

    def __getattr__(name: str) -> Any:
        """The classes are made on first use: their base is Lightning's."""
        if (
            name == "MemoryCallback"
            and importlib.util.find_spec("lightning") is None
            and importlib.util.find_spec("pytorch_lightning") is not None
        ):
            # People have one or the other.
            return callback_class("pytorch_lightning")
        if name in _CLASSES:
            return callback_class(_CLASSES[name])
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
