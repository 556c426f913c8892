"""Predictions in the running process, for notebooks: `estimate` and `estimating`."""

from __future__ import annotations

import contextlib
import copy
import inspect
import os
import tempfile
from collections.abc import Iterator, Mapping
from html import escape
from pathlib import Path
from types import TracebackType
from typing import Any, Callable

from gpumemprof.errors import EnvironmentProblem, Error, UsageError
from gpumemprof.estimate.cards import DEFAULT, find_card
from gpumemprof.estimate.command.prediction import Prediction
from gpumemprof.estimate.command.verdict import Answer, Room, Verdict, judge
from gpumemprof.estimate.process import facts
from gpumemprof.estimate.process.simulated_card import SimulatedCard
from gpumemprof.read.recording import Recording
from gpumemprof.recorder.active import ActiveRecording
from gpumemprof.torch_calls.optimizers import watch_optimizers
from gpumemprof.verify.program import open_quietly

__all__ = ["Estimate", "estimate", "estimating"]

_STEPS = 3


class Estimate:
    """What was predicted; complete once the ``with`` block has ended.

    ::

        print(result)
        result.fits, result.peak_allocated_bytes, result.recording.sources()
    """

    def __init__(self) -> None:
        """Use `estimating` or `estimate` instead."""
        self._verdict: Verdict | None = None
        self._recording: Recording | None = None

    def _complete(self, verdict: Verdict, recording: Recording) -> None:
        self._verdict, self._recording = verdict, recording

    @property
    def verdict(self) -> Verdict:
        """Whether it fits, with the bands and what was assumed."""
        if self._verdict is None:
            raise UsageError("the prediction is not complete", "usage", "", "leave the block first")
        return self._verdict

    @property
    def recording(self) -> Recording:
        """The predicted run, as `gpumemprof.load` would open it."""
        if self._recording is None:
            raise UsageError("the prediction is not complete", "usage", "", "leave the block first")
        return self._recording

    @property
    def fits(self) -> bool:
        """Whether it surely fits the card."""
        return self.verdict.answer is Answer.FITS

    @property
    def peak_allocated_bytes(self) -> int:
        """The most that tensors take at one moment."""
        return self.verdict.prediction.allocated_bytes

    @property
    def peak_reserved_bytes(self) -> int:
        """The most that PyTorch's pool takes from the card."""
        return self.verdict.prediction.reserved_bytes

    def __str__(self) -> str:
        """The verdict and the report."""
        return f"It {self.verdict.sentence}\n\n{self.recording.to_text()}"

    def __repr__(self) -> str:
        """The verdict."""
        if self._verdict is None:
            return "<Estimate, not complete>"
        return f"<Estimate: {self._verdict.sentence}>"

    def _repr_html_(self) -> str | None:
        if self._verdict is None:
            return None
        sentence = escape(f"It {self._verdict.sentence}")
        return f"<div><strong>{sentence}</strong></div>{self.recording._repr_html_()}"


class _Simulation(SimulatedCard):
    """One that the block ends."""

    ended = "exit"

    def end(self, ended: str = "") -> dict[str, str]:
        """As the block ended."""
        return super().end(ended or self.ended)


class estimating:  # noqa: N801 - reads as a verb in a with statement
    """Predict what a block of code takes on a GPU, without one.

    ::

        with gpumemprof.estimating(gpu="h100-80gb") as result:
            model = Model().to("cuda")
            train(model)
        print(result)

    What is put on ``cuda`` inside has a shape, but no contents, and cannot be used afterwards. If
    the card is full, the block ends there, and the verdict says so.
    """

    def __init__(
        self,
        gpu: str = DEFAULT,
        *,
        assume: Mapping[str, float] | None = None,
        path: str | os.PathLike[str] | None = None,
        overwrite: bool = False,
    ) -> None:
        """Prepare.

        Args:
            gpu: the card, as ``gpumemprof estimate --gpus`` lists them.
            assume: by ``file:line``, what values computed there are to be taken for.
            path: keep the predicted recording here.
            overwrite: replace that file if it exists.
        """
        self._card = find_card(gpu)
        self._simulation = _Simulation(self._card, self._card.free_bytes, assume or {})
        self._path = None if path is None else os.fspath(path)
        self._overwrites = overwrite
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._recording: ActiveRecording | None = None
        self._recording_path = ""
        self._result = Estimate()

    def __enter__(self) -> Estimate:
        """Start; the result is complete at the end of the block."""
        self._result = Estimate()
        path = self._path
        if path is None:
            self._folder = tempfile.TemporaryDirectory(prefix="gpumemprof-")
            path = str(Path(self._folder.name) / "estimate.gmp")
        try:
            self._recording = ActiveRecording(
                path, True, False, self._overwrites, simulation=self._simulation
            )
        except Error as error:  # It says all; our own calls in between say nothing.
            raise error.with_traceback(None) from None
        self._recording_path = path
        return self._result

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool:
        """Stop, and judge; a full card is no error here."""
        recording = self._recording
        if recording is None:
            return False
        has_run_out = kind is not None and kind.__name__ == "OutOfMemoryError"
        self._simulation.ended = facts.OUT_OF_MEMORY if has_run_out else "exit"
        recording.stop()
        if kind is None or has_run_out:
            self._judge(open_quietly(self._recording_path))
        if self._folder is not None:
            self._folder.cleanup()
        if error is not None and not has_run_out:
            _explain(error, trace)
        return has_run_out

    def _judge(self, recording: Recording) -> None:
        prediction = Prediction.read(recording, self._card.free_bytes)
        if prediction is None:
            raise UsageError(
                "the block used no GPU memory",
                "usage",
                "",
                'put the model and its inputs on the device "cuda"',
            )
        self._result._complete(judge(prediction, Room.of_card(self._card)), recording)


def _explain(error: BaseException, trace: TracebackType | None) -> None:
    """Raise an error of one sentence if the estimate is why the block failed."""
    from gpumemprof.estimate.engine.failures import explained, hide_frames

    sentence = explained(error, trace)
    hide_frames(error)
    if sentence and not isinstance(error, Error):
        raise EnvironmentProblem(sentence, "environment") from error


def estimate(
    step: Callable[..., Any],
    *,
    model: Any = None,
    optimizer: Any = None,
    gpu: str = DEFAULT,
    steps: int = _STEPS,
    **options: Any,
) -> Estimate:
    """Predict what training steps take on a GPU, without one.

    ::

        def train_step(model, optimizer):
            loss = model(torch.randn(8, 512, device="cuda")).mean()
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()

        result = gpumemprof.estimate(train_step, model=model, optimizer=optimizer, gpu="l4")
        print(result.verdict.sentence)

    Args:
        step: one training step.
        model: a copy of it is put on the simulated card and passed to `step`; it stays as it is.
        optimizer: the model's; a copy that steps the copied model is passed to `step` too.
        gpu: the card.
        steps: how often `step` is called.
        options: those of `estimating`.

    Raises:
        UsageError: `step` takes other arguments, or uses an optimizer of the original model.
    """
    given = [each for each in (model, optimizer) if each is not None]
    _check_arguments(step, given)
    with estimating(gpu, **options) as result, _refusing_steps_of(model):
        # Together, so that the optimizer's parameters are those of the copied model.
        copied = copy.deepcopy(given)
        if model is not None:
            copied[0] = copied[0].to("cuda")
        if optimizer is not None and optimizer.state:
            copied[-1].load_state_dict(copied[-1].state_dict())  # It follows the parameters.
        for _ in range(steps):
            step(*copied)
    return result


def _check_arguments(step: Callable[..., Any], given: list[Any]) -> None:
    try:
        inspect.signature(step).bind(*given)
    except ValueError:  # Its arguments are not known.
        return
    except TypeError as error:
        raise UsageError(
            f"the step cannot be called with what estimate passes to it: {error}",
            "usage",
            "",
            "let it take the model, then the optimizer, as far as they are given to estimate, and "
            "make its inputs itself",
        ) from None


@contextlib.contextmanager
def _refusing_steps_of(model: Any) -> Iterator[None]:
    """An optimizer of the original model would step nothing: its state would be missing."""
    parameters = getattr(model, "parameters", None)
    known = {id(each) for each in parameters()} if callable(parameters) else set()

    def check(optimizer: Any) -> None:
        groups = optimizer.param_groups
        if known & {id(each) for group in groups for each in group["params"]}:
            raise UsageError(
                "the step uses an optimizer of the original model, not of the copy on the card",
                "usage",
                "",
                "pass it as optimizer= and let the step take it as its second argument",
            )

    handles = watch_optimizers(check, lambda *_: None)
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()
