"""What the engine knows about one operation of the dispatcher; found once per overload."""

from __future__ import annotations

from typing import Any, Callable

from gpumemprof.estimate.engine.plain_operations import allocates_results_alone
from gpumemprof.estimate.rules.table import CompiledRule

__all__ = ["Operation"]

Answer = Callable[["Operation", tuple[Any, ...], dict[str, Any]], Any]


class Operation:
    """An overload with its rule, and how its arguments and results are treated."""

    __slots__ = (
        "answer",
        "calls",
        "can_be_recipe",
        "func",
        "has_out",
        "is_empty_factory",
        "is_unknown",
        "may_allocate",
        "name",
        "passes_on",
        "returns_view",
        "rule",
        "shapes",
        "writes",
    )

    def __init__(self, func: Any, rule: CompiledRule | None, answer: Answer | None) -> None:
        schema = func._schema
        self.func = func
        self.calls = 0
        self.can_be_recipe: bool | None = None  # None: not asked yet
        self.passes_on: bool | None = None
        self.name: str = schema.name[6:] if schema.name.startswith("aten::") else schema.name
        self.rule = rule
        self.answer = answer
        # Names of the arguments it writes to, with their places.
        self.writes: list[tuple[int, str]] = [
            (index, argument.name)
            for index, argument in enumerate(schema.arguments)
            if argument.alias_info is not None and argument.alias_info.is_write
        ]
        self.has_out = any(argument.is_out for argument in schema.arguments)
        self.may_allocate = self._may_allocate(schema)
        self.is_empty_factory = self.name.startswith(("empty", "new_empty"))
        # Whether it may need memory beside its results that no rule describes.
        self.is_unknown = self.may_allocate and not allocates_results_alone(func, self.name)
        self.returns_view = any(
            each.alias_info is not None and not each.alias_info.is_write for each in schema.returns
        )
        # The shapes of results by those of the arguments; None if they are not remembered.
        self.shapes: dict[Any, Any] | None = None

    def _may_allocate(self, schema: Any) -> bool:
        """Whether a result can have a storage that no argument has."""
        if self.name in ("resize_", "set_", "lift", "lift_fresh"):
            return True
        if self.has_out:
            return True
        # An in-place operation or a view shares its argument's storage.
        return not schema.returns or any(
            each.alias_info is None or "*" in each.alias_info.after_set for each in schema.returns
        )
