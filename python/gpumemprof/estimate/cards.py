"""The cards that a run can be predicted for, and where each figure about them comes from."""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass, replace

from gpumemprof import _core
from gpumemprof.errors import UsageError

__all__ = ["CARDS", "DEFAULT", "Card", "find_card"]

_MIB = 1 << 20
_LARGEST = 1 << 40

MEASURED = "measured"
"""On such a card, by us."""
PUBLISHED = "published"
"""As torch or CUDA's deviceQuery printed it on such a card; the smallest where they differ."""
ASSUMED = "assumed"
"""From a similar card, or from the size on the box."""
GIVEN = "given"
"""As ``--gpu CARD:SIZE`` says."""


@dataclass(frozen=True)
class Card:
    """One kind of card."""

    id: str
    """As ``--gpu`` takes it."""
    title: str
    """As a sentence names it: ``H100 80 GB``."""
    name: str
    """As ``torch.cuda.get_device_name()`` returns it."""
    capability: tuple[int, int]
    multiprocessors: int
    total_bytes: int
    """What CUDA calls total: without what the firmware keeps."""
    total_from: str
    context_bytes: int
    """What a process takes outside PyTorch's pool as soon as it uses CUDA."""
    context_from: str
    aliases: tuple[str, ...] = ()

    @property
    def free_bytes(self) -> int:
        """What PyTorch's pool can grow to if the card is otherwise unused."""
        return self.total_bytes - self.context_bytes

    @property
    def library_bytes(self) -> int:
        """What kernels, cuBLAS and cuDNN take outside the pool once they are used."""
        return _scaled(_H200_LIBRARIES, self.multiprocessors)

    @property
    def article(self) -> str:
        """``a`` or ``an``, as the title is read aloud.

        >>> find_card("h100").article, find_card("rtx-4090").article, find_card("t4").article
        ('an', 'an', 'a')
        """
        return "an" if self.title[0] in "AHLR" else "a"


_H200_MULTIPROCESSORS = 132
_H200_CONTEXT = 552_402_944
_H200_LIBRARIES = 174_063_616  # first kernel, cuBLAS and cuDNN, one after another


def _scaled(h200_bytes: int, multiprocessors: int) -> int:
    """The H200's figure for another card, in whole MiB.

    Most of a context is space that every multiprocessor has for its threads.
    """
    scaled = h200_bytes * multiprocessors / _H200_MULTIPROCESSORS
    return -int(-scaled // _MIB) * _MIB


def _card(
    id: str,
    title: str,
    name: str,
    capability: tuple[int, int],
    multiprocessors: int,
    total_mib: float,
    total_from: str = PUBLISHED,
    aliases: tuple[str, ...] = (),
) -> Card:
    context = _scaled(_H200_CONTEXT, multiprocessors)
    total = int(total_mib * _MIB)
    return Card(
        id,
        title,
        name if name.startswith("Tesla") else f"NVIDIA {name}",
        capability,
        multiprocessors,
        total,
        total_from,
        context,
        ASSUMED,
        aliases,
    )


_H200 = Card(
    "h200",
    "H200",
    "NVIDIA H200",
    (9, 0),
    _H200_MULTIPROCESSORS,
    150_109_880_320,
    MEASURED,
    _H200_CONTEXT,
    MEASURED,
    ("h200-141gb",),
)

CARDS: tuple[Card, ...] = (
    _card("b200", "B200", "B200", (10, 0), 148, 182_631, aliases=("b200-180gb",)),
    _H200,
    _card(
        "rtx-pro-6000",
        "RTX PRO 6000",
        "RTX PRO 6000 Blackwell Server Edition",
        (12, 0),
        188,
        97_250,
        aliases=("rtx-pro-6000-blackwell",),
    ),
    _card("gh200", "GH200 96 GB", "GH200 480GB", (9, 0), 132, 96_768, ASSUMED, ("gh200-96gb",)),
    _card("h100-nvl", "H100 NVL 94 GB", "H100 NVL", (9, 0), 132, 95_232, aliases=("h100-94gb",)),
    _card(
        "h100-80gb",
        "H100 80 GB",
        "H100 80GB HBM3",
        (9, 0),
        132,
        81_082,
        aliases=("h100", "h100-sxm", "h100-sxm5"),
    ),
    _card(
        "a100-80gb",
        "A100 80 GB",
        "A100-SXM4-80GB",
        (8, 0),
        108,
        81_049,
        aliases=("a100-80gb-sxm", "a100-80gb-pcie"),
    ),
    _card("h100-pcie", "H100 PCIe 80 GB", "H100 PCIe", (9, 0), 114, 81_008),
    _card("rtx-a6000", "RTX A6000", "RTX A6000", (8, 6), 84, 48_676, aliases=("a6000",)),
    _card(
        "rtx-6000-ada",
        "RTX 6000 Ada",
        "RTX 6000 Ada Generation",
        (8, 9),
        142,
        48_640,
        ASSUMED,
        ("6000-ada",),
    ),
    _card("l40s", "L40S", "L40S", (8, 9), 142, 45_465, aliases=("l40s-48gb",)),
    _card("l40", "L40", "L40", (8, 9), 142, 45_465, aliases=("l40-48gb",)),
    _card("a40", "A40", "A40", (8, 6), 84, 45_415, ASSUMED, ("a40-48gb",)),
    _card(
        "a100-40gb",
        "A100 40 GB",
        "A100-SXM4-40GB",
        (8, 0),
        108,
        40_339,
        aliases=("a100-40gb-sxm", "a100-40gb-pcie"),
    ),
    _card("v100-32gb", "V100 32 GB", "Tesla V100-SXM2-32GB", (7, 0), 80, 32_501, ASSUMED),
    _card("rtx-5090", "RTX 5090", "GeForce RTX 5090", (12, 0), 170, 32_117, aliases=("5090",)),
    _card("rtx-3090", "RTX 3090", "GeForce RTX 3090", (8, 6), 82, 24_259, aliases=("3090",)),
    _card("rtx-4090", "RTX 4090", "GeForce RTX 4090", (8, 9), 128, 24_176, aliases=("4090",)),
    _card("rtx-a5000", "RTX A5000", "RTX A5000", (8, 6), 64, 24_138, aliases=("a5000",)),
    _card("a10g", "A10G", "A10G", (8, 6), 80, 22_587, aliases=("a10g-24gb",)),
    _card("a10", "A10", "A10", (8, 6), 72, 22_587, ASSUMED, ("a10-24gb",)),
    _card("l4", "L4", "L4", (8, 9), 58, 22_491, aliases=("l4-24gb",)),
    _card("v100-16gb", "V100 16 GB", "Tesla V100-SXM2-16GB", (7, 0), 80, 16_130),
    _card("rtx-4080", "RTX 4080", "GeForce RTX 4080", (8, 9), 76, 16_049, aliases=("4080",)),
    _card("t4", "T4", "Tesla T4", (7, 5), 40, 14_930, aliases=("t4-16gb",)),
    _card(
        "rtx-3060-12gb",
        "RTX 3060 12 GB",
        "GeForce RTX 3060",
        (8, 6),
        28,
        11_931,
        aliases=("3060", "rtx-3060"),
    ),
    _card(
        "rtx-2080-ti",
        "RTX 2080 Ti",
        "GeForce RTX 2080 Ti",
        (7, 5),
        68,
        10_822,
        aliases=("2080-ti",),
    ),
    _card(
        "rtx-3080",
        "RTX 3080 10 GB",
        "GeForce RTX 3080",
        (8, 6),
        68,
        10_001,
        ASSUMED,
        ("3080", "rtx-3080-10gb"),
    ),
)
"""All of them, the largest first."""

DEFAULT = "h100-80gb"


def _plain(name: str) -> str:
    """Without what people write differently.

    >>> _plain("NVIDIA GeForce RTX 4090"), _plain("H100 80GB")
    ('rtx4090', 'h10080gb')
    """
    text = name.lower()
    for word in ("nvidia", "geforce", "tesla", " ", "-", "_"):
        text = text.replace(word, "")
    return text


def _is_size_of(id: str, name: str) -> bool:
    """Whether the one is the other with a size.

    >>> _is_size_of("a10040gb", "a100"), _is_size_of("h100nvl", "h100")
    (True, False)
    """
    return name != "" and re.fullmatch(re.escape(name) + r"\d+gb", id) is not None


def _names() -> dict[str, Card]:
    found: dict[str, Card] = {}
    for card in CARDS:
        for name in (card.id, card.title, card.name, *card.aliases):
            found.setdefault(_plain(name), card)
    return found


def _with_memory(card: Card, memory: str) -> Card:
    """One of this kind with another size; how much its context takes is not measured then."""
    total = _core.parse_bytes(memory)
    least = card.context_bytes + card.library_bytes
    if total is None or not least < total <= _LARGEST:
        raise UsageError(
            f"'{memory}' is no memory of a card: more than {_core.format_bytes(least)}, which "
            f"context and libraries take, and at most {_core.format_bytes(_LARGEST)}",
            "usage",
            "",
            f"try --gpu {card.id}:24GiB",
        )
    return replace(
        card,
        id=f"{card.id}:{memory.replace(' ', '')}",
        title=f"{card.title} with {_core.format_bytes(total)}",
        total_bytes=total,
        total_from=GIVEN,
        context_from=ASSUMED,
        aliases=(),
    )


def find_card(name: str) -> Card:
    """The card of this name, however it is written.

    >>> find_card("H100 80GB").id, find_card("rtx4090").id, find_card("A100-SXM4-40GB").id
    ('h100-80gb', 'rtx-4090', 'a100-40gb')

    ``CARD:SIZE`` is such a card with this much memory.

    >>> find_card("l40s:24GiB").title, find_card("l40s:24GiB").context_from
    ('L40S with 24.0 GiB', 'assumed')

    Raises:
        UsageError: there is no such card, or there are several that differ in their memory.
    """
    kind, colon, memory = name.partition(":")
    if colon:
        return _with_memory(find_card(kind), memory)
    names = _names()
    card = names.get(_plain(name))
    if card is not None:
        return card
    sizes = [each.id for each in CARDS if _is_size_of(_plain(each.id), _plain(name))]
    if sizes:
        listed = " and ".join(sizes)
        raise UsageError(f"'{name}' may be {listed}", "usage", "", f"try --gpu {sizes[-1]}")
    size = _core.parse_bytes(name) or 0
    if size >= 1 << 20:
        example = min(CARDS, key=lambda each: abs(each.total_bytes - size)).id
        raise UsageError(
            f"'{name}' is a size, not a card",
            "usage",
            "",
            f"name a card, as in --gpu {example}, or {example}:{name.replace(' ', '')} for its "
            f"kind with this memory, or add --fit {name}, which asks whether it fits",
        )
    close = difflib.get_close_matches(_plain(name), names, n=1)
    if close:
        raise UsageError(f"unknown card '{name}', did you mean '{names[close[0]].id}'?", "usage")
    raise UsageError(f"unknown card '{name}'", "usage", "", "gpumemprof estimate --gpus lists them")
