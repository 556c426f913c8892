"""The screen, driven by keys as a user would."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("textual")

from gpumemprof.live.screen.app import LiveScreen
from gpumemprof.live.screen.frame import Frame, frame_lines
from gpumemprof.live.targets import find_target
from gpumemprof.live.watcher import Watcher
from live.growing import DATA, TRAINING, GrowingFile

OOM = DATA / "oom" / "oom_shortage.gmp"


def screen_of(*paths: Path) -> LiveScreen:
    return LiveScreen(Frame(Watcher([find_target(str(path)) for path in paths])))


def texts(screen: LiveScreen, width: int = 80, height: int = 24) -> list[str]:
    return [line.plain for line in frame_lines(screen.frame, width, height)]


def drive(
    screen: LiveScreen, steps: Callable[[Any], Any], size: tuple[int, int] = (80, 24)
) -> None:
    async def run() -> None:
        async with screen.run_test(size=size) as pilot:
            await screen.look()
            await pilot.pause()
            await steps(pilot)

    asyncio.run(run())


@pytest.mark.parametrize("size", [(80, 24), (200, 50), (40, 12), (20, 5)])
def test_fits_any_terminal(size: tuple[int, int]) -> None:
    screen = screen_of(TRAINING, OOM)

    async def steps(pilot: Any) -> None:
        for key in ("down", "question_mark", "x", "slash", "a", "escape"):
            await pilot.press(key)
            lines = frame_lines(screen.frame, *size)
            assert len(lines) == size[1]
            assert all(line.cell_len <= size[0] for line in lines)

    drive(screen, steps, size)


def test_shows_the_card_first_and_failures(tmp_path: Path) -> None:
    screen = screen_of(OOM)

    async def steps(_: Any) -> None:
        lines = texts(screen)
        card = next(line for line in lines if line.startswith("Card"))
        assert "%" in card
        assert "headroom" in card
        assert any(line.startswith("! ran out of memory") for line in lines)
        order = [line.split()[0] for line in lines if line.split()]
        assert order.index("Card") < order.index("Memory") < order.index("Peak")

    drive(screen, steps)


def test_says_that_cpu_tensors_have_no_card() -> None:
    screen = screen_of(TRAINING)

    async def steps(_: Any) -> None:
        assert any("there is no card" in line for line in texts(screen))

    drive(screen, steps)


def test_arrows_select_and_details_follow() -> None:
    screen = screen_of(TRAINING, OOM)

    async def steps(pilot: Any) -> None:
        first = screen.frame.table.selected
        await pilot.press("down")
        second = screen.frame.table.selected
        assert first != second
        selected = [line for line in texts(screen) if line.startswith("▸")]
        assert len(selected) == 1
        await pilot.press("k")
        assert screen.frame.table.selected == first

    drive(screen, steps)


def test_filter_shows_only_what_contains_it() -> None:
    screen = screen_of(TRAINING, OOM)

    async def steps(pilot: Any) -> None:
        await pilot.press("slash", *"cuda", "enter")
        rows = [line for line in texts(screen)[2:5] if "cpu:0" in line or "cuda:0" in line]
        assert rows
        assert all("cuda:0" in line for line in rows)
        await pilot.press("slash", *"nothing")
        assert any("no row contains" in line for line in texts(screen))
        await pilot.press("escape")
        assert screen.frame.table.filter == ""

    drive(screen, steps)


def test_sorts_by_any_column_and_reverses() -> None:
    screen = screen_of(TRAINING, OOM)

    async def steps(pilot: Any) -> None:
        await pilot.press("P")
        order = [line[2:20] for line in texts(screen)[2:4]]
        await pilot.press("I")
        assert [line[2:20] for line in texts(screen)[2:4]] == order[::-1]

    drive(screen, steps)


def test_columns_stay_where_they_are_while_figures_change(tmp_path: Path) -> None:
    growing = GrowingFile(tmp_path / "run.gmp")
    screen = screen_of(growing.path)

    async def steps(_: Any) -> None:
        titles, places = set(), set()
        for _look in range(12):
            growing.grow(growing.size // 12 + 1)
            await screen.look()
            lines = texts(screen)
            titles.add(lines[1])
            for line in lines:
                if " events/s" in line:
                    places.add(line.index(" events/s"))
        assert len(titles) == 1
        assert len(places) == 1

    drive(screen, steps)


def test_q_quits() -> None:
    screen = screen_of(TRAINING)

    async def steps(pilot: Any) -> None:
        await pilot.press("q")
        assert screen._exit

    drive(screen, steps)


def test_an_empty_folder_says_how_to_fill_it(tmp_path: Path) -> None:
    screen = screen_of(tmp_path)

    async def steps(_: Any) -> None:
        assert any("gpumemprof run" in line for line in texts(screen))

    drive(screen, steps)
