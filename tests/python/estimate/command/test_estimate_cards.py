"""The table of cards: found by any name, and consistent."""

from __future__ import annotations

import pytest
from gpumemprof.errors import UsageError
from gpumemprof.estimate.cards import ASSUMED, CARDS, DEFAULT, GIVEN, MEASURED, PUBLISHED, find_card


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("h100", "h100-80gb"),
        ("H100-80GB", "h100-80gb"),
        ("NVIDIA H100 80GB HBM3", "h100-80gb"),
        ("NVIDIA GeForce RTX 4090", "rtx-4090"),
        ("4090", "rtx-4090"),
        ("Tesla T4", "t4"),
        ("A100-SXM4-40GB", "a100-40gb"),
        ("rtx_a6000", "rtx-a6000"),
    ],
)
def test_a_card_is_found_however_it_is_written(name: str, found: str) -> None:
    assert find_card(name).id == found


def test_no_two_cards_share_a_name() -> None:
    names = [name for card in CARDS for name in {card.id, *card.aliases}]
    assert sorted(names) == sorted(set(names))
    for card in CARDS:
        assert {find_card(name).id for name in (card.id, *card.aliases)} == {card.id}


@pytest.mark.parametrize(("size", "gibibytes"), [("24GiB", 24), ("24 GB", 22.4), ("80GB", 74.5)])
def test_a_size_is_no_card(size: str, gibibytes: float) -> None:
    with pytest.raises(UsageError) as refused:
        find_card(size)
    said = str(refused.value)
    assert said.startswith(f"'{size}' is a size, not a card; name a card, as in --gpu ")
    assert said.endswith(f", or add --fit {size}, which asks whether it fits")
    example = find_card(said.partition("--gpu ")[2].partition(",")[0])
    assert abs(example.total_bytes / 2**30 - gibibytes) < 6


def test_a_card_of_a_kind_may_have_another_size() -> None:
    kind, card = find_card("h200"), find_card("NVIDIA H200:24 GiB")
    assert (card.id, card.title, card.total_bytes) == ("h200:24GiB", "H200 with 24.0 GiB", 24 << 30)
    assert (card.total_from, card.context_from) == (GIVEN, ASSUMED)
    assert (card.name, card.capability) == (kind.name, kind.capability)
    assert find_card(card.id) == card  # the program's process finds it by its id


@pytest.mark.parametrize("memory", ["", "24", "100MiB", "2TiB", "much"])
def test_a_size_that_no_card_has_is_refused(memory: str) -> None:
    with pytest.raises(UsageError, match=f"'{memory}' is no memory of a card: .*l4:24GiB"):
        find_card(f"l4:{memory}")


def test_a_mistyped_card_gets_a_hint() -> None:
    with pytest.raises(UsageError, match="did you mean 'h100-80gb'"):
        find_card("h100-80bg")
    with pytest.raises(UsageError, match="--gpus lists them"):
        find_card("abacus")


@pytest.mark.parametrize("name", ["a100", "NVIDIA A100", "V100"])
def test_a_name_of_two_cards_asks_for_the_size(name: str) -> None:
    kind = name[-4:].lower()
    with pytest.raises(UsageError, match=rf"'{name}' may be {kind}-\d+gb and {kind}-\d+gb"):
        find_card(name)


def test_the_largest_come_first() -> None:
    sizes = [card.total_bytes for card in CARDS]
    assert sizes == sorted(sizes, reverse=True)
    assert find_card(DEFAULT).id == DEFAULT


@pytest.mark.parametrize("card", CARDS, ids=lambda card: card.id)
def test_every_figure_says_where_it_comes_from(card) -> None:
    assert {card.total_from, card.context_from} <= {MEASURED, PUBLISHED, ASSUMED}
    # A context takes a few hundred MiB, never a large part of a card.
    assert 64 << 20 < card.context_bytes < 1 << 30
    assert card.free_bytes + card.context_bytes == card.total_bytes
    assert 0 < card.library_bytes < card.context_bytes


def test_only_what_was_measured_is_called_so() -> None:
    measured = [card.id for card in CARDS if MEASURED in (card.total_from, card.context_from)]
    assert measured == ["h200"]
    assert find_card("h200").free_bytes == 150_109_880_320 - 552_402_944
