"""A callback for the Trainer of transformers: steps, evaluation and saving in the recording.

::

    from gpumemprof.integrations.huggingface import MemoryCallback

    trainer = Trainer(model, arguments, train_dataset=data)
    MemoryCallback("run.gmp").add_to(trainer)
    trainer.train()
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Union

from gpumemprof.hooks.steps import step
from gpumemprof.integrations.metrics import MemoryMetrics
from gpumemprof.integrations.missing import missing
from gpumemprof.integrations.phases import Phases
from gpumemprof.integrations.recordings import CallbackRecordings
from gpumemprof.recorder.active import ActiveRecording

if TYPE_CHECKING:
    _Base = object
    _Flow = object
else:
    try:
        from transformers import DefaultFlowCallback as _Flow
        from transformers import TrainerCallback as _Base
    except ImportError:
        _Base = _Flow = object

__all__ = ["MemoryCallback"]

_Path = Union[str, "os.PathLike[str]"]


class MemoryCallback(_Base):
    """Marks steps, evaluation and saving in open recordings, and logs a few figures.

    ::

        Trainer(model, arguments, callbacks=[MemoryCallback()])

    The Trainer reports to its loggers before it calls the callbacks that it was given. So that
    they log the figures too, use `add_to`.

    Args:
        output: record training to this file; ranks and later trainings get names of their own.
            Not needed under ``gpumemprof run`` or with ``GPUMEMPROF=1``, which record the whole
            program.
        metrics: add the figures to what the Trainer logs.
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
        """Nothing starts before training does."""
        if not TYPE_CHECKING and _Base is object:
            raise missing("transformers", "MemoryCallback")
        self._recordings = CallbackRecordings(output, options)
        self._logs = metrics
        self._device = device
        self._metrics: MemoryMetrics | None = None
        self._phases = Phases()

    @property
    def recording(self) -> ActiveRecording | None:
        """What is being recorded, or was; None without an output.

        >>> MemoryCallback("run.gmp").recording  # doctest: +SKIP
        """
        return self._recordings.latest

    def add_to(self, trainer: Any) -> MemoryCallback:
        """Add it before a Trainer's loggers, so that they get the figures.

        >>> MemoryCallback().add_to(trainer)  # doctest: +SKIP
        """
        callbacks = trainer.callback_handler.callbacks
        # After the one that decides when to evaluate and to save.
        flows = [at for at, one in enumerate(callbacks) if isinstance(one, _Flow)]
        callbacks.insert(flows[0] + 1 if flows else 0, self)
        return self

    def on_train_begin(self, args: Any, *_: Any, **__: Any) -> None:
        """Start."""
        self._recordings.begin(args.process_index, args.world_size)
        if self._logs and self._metrics is None:
            self._metrics = MemoryMetrics(self._device)

    def on_step_begin(self, *_: Any, **__: Any) -> None:
        """A step begins, and whatever came between steps has ended."""
        self._phases.end()
        step()

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """The Trainer evaluates and saves after it, if it is time."""
        self._begin_what_follows(control)

    def on_epoch_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """As after a step."""
        self._begin_what_follows(control)

    def _begin_what_follows(self, control: Any) -> None:
        if control.should_evaluate:
            self._phases.begin("evaluation")
        elif control.should_save:
            self._phases.begin("saving")

    def on_prediction_step(self, *_: Any, **__: Any) -> None:
        """Called after a batch; nothing announces an evaluation that the program asked for."""
        self._phases.begin("evaluation")

    def on_evaluate(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """An evaluation has ended; the Trainer saves after it, if it is time."""
        self._phases.end()
        if control.should_save:
            self._phases.begin("saving")

    def on_predict(self, *_: Any, **__: Any) -> None:
        """A prediction has ended."""
        self._phases.end()

    def on_save(self, *_: Any, **__: Any) -> None:
        """A checkpoint was saved."""
        self._phases.end()

    def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **_: Any) -> None:
        """Add the figures since the last log."""
        if self._metrics is None or logs is None:
            return
        figures = self._metrics.take()
        logs.update(figures)
        if state.log_history and state.log_history[-1].get("step") == state.global_step:
            state.log_history[-1].update(figures)

    def on_train_end(self, *_: Any, **__: Any) -> None:
        """Training has ended; the recording with it."""
        self._phases.end()
        self._recordings.end()
        if self._metrics is not None:
            self._metrics.close()
            self._metrics = None
