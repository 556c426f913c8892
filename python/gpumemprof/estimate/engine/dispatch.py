"""Hears every operation of the program: allocates what it returns, and answers what it reads."""

from __future__ import annotations

import threading
from typing import Any

import torch
from torch._ops import HigherOrderOperator
from torch._subclasses import fake_tensor
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils._python_dispatch import TorchDispatchMode

from gpumemprof.estimate.engine.device import Device
from gpumemprof.estimate.engine.failures import CannotEstimate, as_on_a_gpu, no_shape_function
from gpumemprof.estimate.engine.fake_mode import FakeMode
from gpumemprof.estimate.engine.gradients import GradientSums
from gpumemprof.estimate.engine.operation import Answer, Operation
from gpumemprof.estimate.engine.reading.answers import Answers
from gpumemprof.estimate.engine.reading.pinned import is_pinned, pin
from gpumemprof.estimate.engine.shapes.by_running import shapes_by_running
from gpumemprof.estimate.engine.shapes.by_value import DataShapes
from gpumemprof.estimate.engine.shapes.cache import ShapeCache, can_cache
from gpumemprof.estimate.engine.shapes.checks import as_torch_says
from gpumemprof.estimate.engine.shapes.functions import MADE_OF_OPERATIONS, SHAPE_FUNCTIONS
from gpumemprof.estimate.engine.shapes.parts import run_parts
from gpumemprof.estimate.engine.shapes.sparse import SPARSE_FUNCTIONS, may_be_sparse
from gpumemprof.estimate.engine.shapes.sparse_products import sparse_shapes
from gpumemprof.estimate.engine.values import Values, forget
from gpumemprof.estimate.ranks.collectives import Collectives
from gpumemprof.estimate.rules.table import Call, CompiledRule, chosen, compile_rules

__all__ = ["EstimateMode"]

aten = torch.ops.aten
_FAKE = torch._C._TorchDispatchModeKey.FAKE

_NO_SHAPE: tuple[type[Exception], ...] = tuple(
    kind
    for name in (
        "UnsupportedOperatorException",
        "DynamicOutputShapeException",
        "DataDependentOutputException",
        "UnsupportedFakeTensorException",
    )
    if isinstance(kind := getattr(fake_tensor, name, None), type)
)


class EstimateMode(TorchDispatchMode):  # type: ignore[misc]
    """Runs above torch's fake mode: operations have shapes and devices, but no data.

    Each new storage is allocated on the simulated device and watched until torch destroys it. The
    rules add what the CUDA kernels allocate beside their results.
    """

    def __init__(self, device: Device, answers: Answers, fake_mode: FakeMode) -> None:
        super().__init__()
        self._fake_mode = fake_mode
        self._cache = ShapeCache(fake_mode)
        self.device = device
        self.answers = answers
        answers.on_doubt = device.on_assumed
        answers.device = device
        self.values = Values()
        self.gradient_sums = GradientSums(device)
        self._plain_types: set[type] = set()
        self._data_shapes = DataShapes(device.assumptions, answers, device.on_assumed_size)
        self._rules = compile_rules(device)
        self.collectives = Collectives(device)
        self._operations: dict[Any, Operation] = {}
        self._thread = 0
        self.ending: type[BaseException] | None = None
        """To be raised in the main thread at its next operation."""

    supports_higher_order_operators = True

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # Nothing is compiled, and to say so takes time in every call.

    @staticmethod
    def _may_end(func: Any) -> bool:
        """Where C++ lets exceptions through: not where it asks for a device, a layout or a size."""
        name = func._schema.name
        return threading.current_thread() is threading.main_thread() and not name.startswith(
            ("prim::", "aten::sym_", "aten::is_")
        )

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        for kind in types:
            if kind is not FakeTensor and not self._is_plain(kind):
                # A subclass with operations of its own; they arrive here one by one.
                return NotImplemented
        if torch._C._get_dispatch_mode(_FAKE) is not self._fake_mode:
            # Torch's own code computes shapes with a mode of its own, or for real, without any.
            return func(*args, **(kwargs or {}))
        if threading.get_ident() != self._thread:
            self._arrive()
        if isinstance(func, HigherOrderOperator):
            return self._run_parts(func, args, kwargs or {})
        if self.ending is not None and self._may_end(func):
            raise self.ending
        device, pace = self.device, self.device.pace
        objects, births = pace.count_objects(), device.births_so_far
        added, collections = pace.added, pace.collections
        outputs = self._run(func, types, args, kwargs or {})
        if device.births_so_far != births:
            born = range(births + 1, device.births_so_far + 1)
            pace.after(born, objects, added, collections, outputs)
        return outputs

    def _run_parts(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """An operator that calls functions, as `torch.cond` does: their operations arrive here."""
        with self:
            return run_parts(func, args, kwargs)

    def _run(self, func: Any, types: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        op = self._operations.get(func) or self._learn(func)
        op.calls += 1
        if kwargs.get("pin_memory"):
            kwargs = {**kwargs, "pin_memory": False}
            return pin(self.__torch_dispatch__(func, types, args, kwargs))
        if op.answer is not None:
            outputs = op.answer(op, args, kwargs)
            if outputs is not NotImplemented:
                return outputs
        rule = op.rule
        if rule is None:
            outputs = self._shapes(op, args, kwargs)
            if op.may_allocate:
                self.device.births(outputs, op.name)
                if op.is_unknown:
                    self.device.on_unknown(outputs, op.name)
        else:
            outputs = self._follow(rule, op, Call(func, op.name, args, kwargs))
        self.values.after(op, args, kwargs, outputs)
        return outputs

    def _arrive(self) -> None:
        """The backward pass runs in a thread of torch's own, which has the modes, but not this.

        There, checkpointed code may call torch.tensor(..., device="cuda") again, as in `Modes`.
        """
        self._thread = threading.get_ident()
        torch._C._set_only_lift_cpu_tensors(True)

    def _follow(self, rule: CompiledRule, op: Operation, call: Call) -> Any:
        device = self.device
        certainty = device.certainty
        if certainty != "absent":
            device.certainty = rule.certainty
        try:
            for before in rule.before:
                self._try(op, before, call)
            if rule.instead is None:
                outputs = self._shapes(op, call.args, call.kwargs)
            else:
                outputs = rule.instead(device, call)
            is_born = rule.births is not None and self._try(op, rule.births, call, outputs)
            if op.may_allocate and not is_born:
                device.births(outputs, op.name)
            for after in rule.after:
                self._try(op, after, call, outputs)
            return outputs
        finally:
            device.certainty = certainty

    def _try(self, op: Operation, hook: Any, *args: Any) -> bool:
        """Whether the rule held: one that fails must not end the user's program."""
        try:
            hook(self.device, *args)
            return True
        except (torch.OutOfMemoryError, CannotEstimate):
            raise
        except Exception as error:
            self.device.note(
                "workspace",
                f"what {op.name} takes beside its results is missing: its rule failed "
                f"({type(error).__name__}: {error})",
            )
            return False

    def _is_plain(self, kind: type) -> bool:
        if kind in self._plain_types:
            return True
        dispatch = getattr(kind, "__torch_dispatch__", None)
        if dispatch is not torch._C._disabled_torch_dispatch_impl and kind is not torch.Tensor:
            return False
        self._plain_types.add(kind)
        return True

    @property
    def operations(self) -> list[Operation]:
        """The operations that were called."""
        return [op for op in self._operations.values() if op.calls]

    def reset_counts(self) -> None:
        for op in self._operations.values():
            op.calls = 0

    def _learn(self, func: Any) -> Operation:
        op = Operation(func, None, self._answer_for(func))
        op.rule = self._rules.get(op.name)
        op.shapes = {} if can_cache(op) else None
        self._operations[func] = op
        return op

    def _answer_for(self, func: Any) -> Answer | None:
        name = func._schema.name
        name = name[6:] if name.startswith("aten::") else name
        if func is torch.ops.prim.device.default:
            return _device_of
        if func is aten._local_scalar_dense.default:
            return lambda op, args, kwargs: self.answers.item(args[0])
        if func is aten.equal.default:
            return lambda op, args, kwargs: self.answers.equal(args[0], args[1])
        if func is aten.add.Tensor:
            sparse_sum = self._within_mode(SPARSE_FUNCTIONS["add"])
            return lambda op, args, kwargs: (
                sparse_sum(op, args, kwargs)
                if may_be_sparse(op, args)
                else self.gradient_sums.add(args, kwargs)
            )
        if name == "allclose":
            return self._within_mode(
                lambda op, args, kwargs: self.answers.item(torch.isclose(*args, **kwargs).all())
            )
        if name == "scaled_dot_product_attention":
            return self._within_mode(self._attention)
        if name in ("resize_", "resize_as_"):
            return self._resize
        if name == "_efficientzerotensor":
            return self._zeros_without_memory
        if name in ("mul", "div"):
            return self._product_with_zeros
        if name == "is_pinned":
            return lambda op, args, kwargs: is_pinned(args[0])
        if name == "record_stream":
            return lambda op, args, kwargs: None
        if name in MADE_OF_OPERATIONS:
            shapes = SHAPE_FUNCTIONS[name]
            return self._within_mode(lambda op, args, kwargs: shapes(*args, **kwargs))
        if name in SPARSE_FUNCTIONS:
            sparse = self._within_mode(SPARSE_FUNCTIONS[name])
            return lambda op, args, kwargs: (
                sparse(op, args, kwargs) if may_be_sparse(op, args) else NotImplemented
            )
        function = self._data_shapes.functions.get(name)
        if function is not None:
            return self._within_mode(function)
        collective = self.collectives.answer_for(name)
        if collective is not None:
            return self._within_mode(collective)
        if _is_made_of_others(func):
            return self._within_mode(_run_parts)
        return None

    def _resize(self, op: Operation, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A tensor that grows beyond its storage gets a larger block."""
        storage = args[0].untyped_storage()
        before = storage.nbytes()
        outputs = self._shapes(op, args, kwargs)
        if self.device.knows(storage) and storage.nbytes() > before:
            self.device.resize(storage, storage.nbytes(), op.name)
        self.device.births(outputs, op.name)
        forget(args[0])
        return outputs

    def _zeros_without_memory(
        self, op: Operation, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """A tangent that is 0 everywhere has no memory; nor has its product with anything."""
        zeros = aten.zeros.default(*args, **kwargs)
        zeros.__dict__["_is_zero"] = True
        self.device.not_there(zeros)
        return zeros

    def _product_with_zeros(
        self, op: Operation, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        if not any("_is_zero" in getattr(each, "__dict__", ()) for each in args[:2]):
            return NotImplemented
        zeros = self._shapes(op, args, kwargs)
        zeros.__dict__["_is_zero"] = True
        self.device.not_there(zeros)
        return zeros

    def _attention(self, op: Operation, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Arrives whole only in torch.inference_mode(): elsewhere its own kernel chooses."""
        choose = chosen("scaled_dot_product_attention")
        if choose is None or not _is_on_cuda(args):
            return op.func.decompose(*args, **kwargs)
        return choose(self.device, *args, **kwargs)

    def _within_mode(self, function: Answer) -> Answer:
        def answer(op: Operation, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            # What it creates is allocated like the results of any operation.
            torch._C._push_on_torch_dispatch_stack(self)
            try:
                return function(op, args, kwargs)
            finally:
                torch._C._pop_torch_dispatch_stack(None)

        return answer

    def _shapes(self, op: Operation, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The operation on fake tensors."""
        function = SHAPE_FUNCTIONS.get(op.name)
        if function is not None and _is_on_cuda(args):
            found = function(*args, **kwargs)
            if found is not NotImplemented:
                return found
        try:
            return self._cache.run(op, args, kwargs)
        except _NO_SHAPE as error:
            return self._run_on_zeros(op, args, kwargs, error)
        except (ValueError, IndexError, AssertionError) as error:
            raise as_torch_says(op.func, args, kwargs, error) from None
        except RuntimeError as error:  # NotImplementedError is one.
            if not _is_about_missing_kernel(error):
                raise as_torch_says(op.func, args, kwargs, as_on_a_gpu(error)) from None
            return self._run_on_zeros(op, args, kwargs, error)

    def _run_on_zeros(
        self, op: Operation, args: tuple[Any, ...], kwargs: dict[str, Any], error: Exception
    ) -> Any:
        if isinstance(error, CannotEstimate):
            raise error
        found = sparse_shapes(op.name, args, kwargs)
        if found is not NotImplemented:
            return found
        found = shapes_by_running(op.func, args, kwargs)
        if found is NotImplemented:
            raise no_shape_function(op.func) from error
        self.device.note("kernel", f"the shape of {op.name}'s result was found with zeros")
        return found


def _is_made_of_others(func: Any) -> bool:
    """Operations without kernels of their own arrive whole in torch.inference_mode()."""
    has_kernel = torch._C._dispatch_has_kernel_for_dispatch_key
    name = func.name()
    return (
        has_kernel(name, "CompositeImplicitAutograd")
        and not has_kernel(name, "CUDA")
        and not has_kernel(name, "CPU")
        and not has_kernel(name, "Meta")
    )


def _run_parts(op: Operation, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """As torch's C++ code does, where its Python code, made for compilers, takes other steps."""
    if "upsample" in op.name:
        return op.func._op_dk(torch._C.DispatchKey.CompositeImplicitAutograd, *args, **kwargs)
    return op.func.decompose(*args, **kwargs)


def _is_about_missing_kernel(error: Exception) -> bool:
    """Whether torch has no shape function, and tried to run the CUDA kernel or found none."""
    text = str(error)
    if "is_as_torch_says" in error.__dict__:
        return False
    if isinstance(error, NotImplementedError):
        return "Meta" in text or "fake" in text or "CUDA" in text
    return text.startswith(
        (
            "CUDA error",
            "Found no NVIDIA",
            "No CUDA GPUs",
            "Unexpected error from",
            "There was no fake impl registered",
        )
    )


def _device_of(op: Operation, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The most frequent question of Python code."""
    tensor = args[0]
    return tensor.fake_device if type(tensor) is FakeTensor else NotImplemented


def _is_on_cuda(args: tuple[Any, ...]) -> bool:
    return any(
        (isinstance(each, FakeTensor) and each.fake_device.type == "cuda")
        or (isinstance(each, (list, tuple)) and _is_on_cuda(tuple(each[:1])))
        for each in args
    )
