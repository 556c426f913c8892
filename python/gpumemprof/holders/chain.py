"""A chain from a name in the program to the memory it holds, and how it is written.

Chains read as Python where Python can express them (``trainer.history['loss'][0]``) and go on with
arrows where it cannot: into a closure, a frame, autograd's graph. Chains that differ in an index
alone are written as one: ``losses[0…412]``. So are those that differ in the middle of a long way
through the graph, as to the states of every step.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

__all__ = ["Chain", "Link", "Root", "grouped"]

_MOST_NODES_SHOWN = 4
_LEAST_SHARE = 4  # the fourth part of what the weightiest way holds
_REPEATED = re.compile(r"(\.[^\W\d]\w*)\1{3,}(?!\w)")


class Link(NamedTuple):
    """How one object holds the next."""

    kind: str
    """``attribute``, ``item``, ``key``: as in Python; ``namespace``, ``contents``: the dict of an
    instance or the content of a cell, which are not written; ``names``: a tuple whose items have
    names; ``local``: a dict per thread; ``cache``: results by arguments; ``node``: a node of the
    graph; ``arrow``: anything else."""
    text: str = ""
    number: int | None = None
    """The index of an item."""
    names: tuple[str, ...] = ()
    suffix: str = ""


class Root(NamedTuple):
    """A name that holds something."""

    text: str
    note: str = ""
    """Whose name it is; empty for a global of the program."""
    is_user: bool = True
    """Whether it is in the program's own code, not in a library's."""
    kind: str = "variable"
    """``variable``, ``exception`` or ``other``."""
    depth: int = 0
    """Of the frame whose variable it is: the outermost is 1; 0 for a name that belongs to none."""


@dataclass
class _Segment:
    """A part of the text between arrows."""

    prefix: str = ""
    expression: str = ""
    is_quoted: bool = False
    suffix: str = ""

    def text(self) -> str:
        shown = f"'{self.expression}'" if self.is_quoted and self.expression else self.expression
        return f"{self.prefix}{shown}{self.suffix}"


class _Writer:
    """Puts links into words, one after the other."""

    def __init__(self, root: Root) -> None:
        self.segments = [_Segment(expression=root.text)]
        if root.kind == "exception":
            self.segments = [_Segment("exception in variable ", root.text, True)]
        elif root.kind == "other":
            self.segments = [_Segment(prefix=root.text)]
        self._held: Link | None = None  # it changes how the next link is written

    def add(self, link: Link) -> None:
        held, self._held = self._held, None
        if link.kind == "contents":
            self._held = held
        elif link.kind in ("namespace", "names", "local"):
            self._held = link
        elif link.kind == "cache":
            self._arrow(link.text, "", "")
            self._held = link
        elif held is not None and held.kind == "cache" and link.kind in ("key", "item"):
            pass  # the arguments of the call
        elif held is not None and held.kind == "names" and link.kind in ("item", "key"):
            name = link.text
            if link.kind == "item" and link.number is not None:
                in_range = link.number < len(held.names)
                name = held.names[link.number] if in_range else str(link.number)
            self._arrow(held.text, name.strip("[]'"), held.suffix)
        elif held is not None and held.kind == "local" and link.kind == "key":
            self._held = Link("namespace")  # the dict of one thread
        elif held is not None and held.kind == "namespace" and link.kind == "key":
            self._attribute(link.text)
        else:
            self._add_plain(link)

    def _attribute(self, key: str) -> None:
        name = key[2:-2] if key.startswith("['") else key
        self.segments[-1].expression += f".{name}" if name.isidentifier() else key

    def _add_plain(self, link: Link) -> None:
        if link.kind in ("attribute", "item", "key"):
            self.segments[-1].expression += link.text
        else:
            self._arrow(link.text, link.names[0] if link.names else "", link.suffix)

    def _arrow(self, text: str, name: str, suffix: str) -> None:
        self.segments.append(_Segment(text, name, bool(name), suffix))

    def text(self) -> str:
        return " → ".join(segment.text() for segment in self.segments)


def _nodes_left_out(links: list[Link]) -> int:
    nodes = sum(link.kind == "node" for link in links)
    return nodes - 3 if nodes > _MOST_NODES_SHOWN else 0


def _without_middle(links: list[Link], fewest: int, most: int) -> list[Link]:
    """A long way through the graph is shown by its ends."""
    if most == 0:
        return links
    nodes = [place for place, link in enumerate(links) if link.kind == "node"]
    first, last = nodes[2], nodes[-1]
    count = f"{most:,}" if fewest == most else f"{fewest:,} to {most:,}"
    return [*links[:first], Link("node", f"… {count} more …"), *links[last:]]


def _without_repetitions(text: str) -> str:
    """A long way along a linked list: one attribute, and how often it is followed."""
    return _REPEATED.sub(
        lambda found: f"{found[1]}(×{len(found[0]) // len(found[1]):,})",  # noqa: RUF001
        text,
    )


def _neat(links: Iterable[Link]) -> list[Link]:
    """The dicts in which torch's modules keep their parts are left out."""
    neat: list[Link] = []
    waiting = list(links)
    place = 0
    while place < len(waiting):
        link = waiting[place]
        following = waiting[place + 1] if place + 1 < len(waiting) else None
        is_part = link.kind == "attribute" and link.text in _PART_DICTS
        is_part |= link.kind == "key" and link.text in _PART_KEYS
        if is_part and following is not None and following.kind == "key":
            name = following.text.strip("[]'")
            if neat and neat[-1].kind == "namespace":
                neat.pop()
            if name.isidentifier():
                neat.append(Link("attribute", f".{name}"))
            else:
                shown = f"[{name}]" if name.isdigit() else following.text
                neat.append(Link("key", shown))
            place += 2
            continue
        neat.append(link)
        place += 1
    return neat


_PART_DICTS = ("._modules", "._parameters", "._buffers")
_PART_KEYS = ("['_modules']", "['_parameters']", "['_buffers']")


@dataclass
class Chain:
    """One way in which memory is held.

    >>> chain = Chain(Root("losses"), [Link("item", "[3]", 3)])
    >>> str(chain)
    'losses[3]'
    """

    root: Root
    links: list[Link]
    is_alias: bool = False
    """Whether it is another way to a container that is already named."""
    blocks: int = 1
    """How many of the blocks that were looked at are held this way."""
    bytes: int = 0
    """Their bytes."""
    ranges: dict[int, tuple[int, int]] = field(default_factory=dict)
    """The first and the last index, by the place of the link, where chains differ in it."""
    nodes_left_out: tuple[int, int] = (0, 0)
    """The fewest and the most, of chains that differ in it."""

    def __post_init__(self) -> None:
        left_out = _nodes_left_out(self.links)
        self.nodes_left_out = (left_out, left_out)

    def _numbered(self) -> list[int]:
        """The places of links that have an index."""
        return [
            place
            for place, link in enumerate(self.links)
            if link.kind == "item" and link.number is not None
        ]

    def add(self, other: Chain) -> None:
        """Make it stand for another with the same signature, too."""
        self.blocks += other.blocks
        self.bytes += other.bytes
        fewest, most = self.nodes_left_out
        count = other.nodes_left_out[0]
        self.nodes_left_out = (min(fewest, count), max(most, count))
        for place, others in zip(self._numbered(), other._numbered()):
            number = other.links[others].number or 0
            first, last = self.ranges.get(place, (self.links[place].number or 0,) * 2)
            self.ranges[place] = (min(first, number), max(last, number))

    def _shown_links(self) -> list[Link]:
        links = []
        for place, link in enumerate(self.links):
            first, last = self.ranges.get(place, (0, 0))
            if place in self.ranges and first != last:
                link = link._replace(text=f"[{first}…{last}]")
            links.append(link)
        return _without_middle(_neat(links), *self.nodes_left_out)

    def __str__(self) -> str:
        links = self._shown_links()
        root = self.root
        is_error = any(link.kind == "arrow" and link.text == "traceback" for link in links[:1])
        if root.kind == "variable" and is_error:
            root = root._replace(kind="exception")
        writer = _Writer(root)
        for link in links:
            writer.add(link)
        note = f"  ({self.root.note})" if self.root.note else ""
        return _without_repetitions(writer.text()) + note

    def parts(self) -> list[str]:
        """The name, then each link, as text."""
        parts = [f"{self.root.text} ({self.root.note})" if self.root.note else self.root.text]
        for link in self._shown_links():
            if link.kind in ("namespace", "contents", "local"):
                continue
            name = f" '{link.names[0]}'" if link.names else ""
            parts.append(f"{link.text}{name}{link.suffix}")
        return parts

    def signature(self) -> tuple[object, ...]:
        """Equal for chains that differ only in indices, or in the middle of a long way."""
        steps = tuple(
            (link.kind, "" if link.kind == "item" and link.number is not None else link.text)
            for link in _without_middle(self.links, 0, self.nodes_left_out[0] and 1)
        )
        return (self.root.text, self.root.note, self.is_alias, steps)


def grouped(chains: list[Chain]) -> list[Chain]:
    """Chains with the same signature become one; those that hold the most come first."""
    groups: dict[tuple[object, ...], Chain] = {}
    for chain in chains:
        signature = chain.signature()
        known = groups.setdefault(signature, chain)
        if known is not chain:
            known.add(chain)
    # A name of the program that holds little says less than one of a library that holds it all.
    most = max((one.bytes for one in groups.values()), default=0)
    return sorted(
        groups.values(),
        key=lambda one: (
            not one.root.is_user or one.bytes * _LEAST_SHARE < most,
            one.is_alias,
            -one.bytes,
            -one.blocks,
        ),
    )
