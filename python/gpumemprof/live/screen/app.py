"""The Textual application: keys, and four looks a second."""

from __future__ import annotations

import asyncio
from typing import Callable, ClassVar

from rich.text import Text
from textual import events
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.widget import Widget

from gpumemprof.live.screen.frame import Frame, frame_lines, shown_rows
from gpumemprof.live.screen.table import COLUMNS
from gpumemprof.live.watcher import Watcher

__all__ = ["LiveScreen", "watch"]

_LOOK_SECONDS = 0.25
_PAGE = 10


class _Canvas(Widget):
    """The whole screen. Its size is the terminal's, so new text needs no new layout."""

    text = Text()

    def show(self, text: Text) -> None:
        self.text = text
        self.refresh()

    def render(self) -> Text:
        return self.text


class LiveScreen(App[None]):
    """Draws a `Frame`, and changes it as the user says."""

    CSS = "Screen { overflow: hidden; } #frame { width: 100%; height: 100%; }"
    ENABLE_COMMAND_PALETTE = False
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+c", "interrupt", priority=True, show=False),
        Binding("ctrl+q", "quit", priority=True, show=False),
    ]

    def __init__(
        self,
        frame: Frame,
        is_over: Callable[[], bool] = lambda: False,
        interrupt: Callable[[], None] | None = None,
    ) -> None:
        """Show `frame` until the user quits or `is_over`; Ctrl-C calls `interrupt`, if given."""
        super().__init__(ansi_color=True)
        self.frame = frame
        self._is_over = is_over
        self._interrupt = interrupt
        self._is_looking = False
        self._is_first = True
        self._drawn: list[Text] = []

    def compose(self) -> ComposeResult:
        """One field that fills the screen."""
        yield _Canvas(id="frame")

    def on_mount(self) -> None:
        """Look at once, and then regularly."""
        self.set_interval(_LOOK_SECONDS, self.look)
        self.call_later(self.look)

    async def look(self) -> None:
        """Read what is new, and draw."""
        if self._is_looking:
            return
        self._is_looking = True
        try:
            await asyncio.to_thread(self.frame.watcher.look)
        finally:
            self._is_looking = False
        self.draw()
        if self._is_over():
            self.exit()

    def draw(self) -> None:
        """Draw the frame as it is; nothing if it did not change."""
        lines = frame_lines(self.frame, *self.size)
        if lines == self._drawn and all(
            new.spans == old.spans for new, old in zip(lines, self._drawn)
        ):
            return
        self._drawn = lines
        self.query_one("#frame", _Canvas).show(Text("\n").join(lines))

    def on_resize(self) -> None:
        """The frame depends on the size."""
        self.draw()

    def on_key(self, event: events.Key) -> None:
        """Every key is ours."""
        event.stop()
        event.prevent_default()
        if self.frame.is_filtering:
            self._type(event)
        else:
            self._command(event.key, event.character or "")
        self.draw()

    def action_interrupt(self) -> None:
        """Ctrl-C: what it does without a screen."""
        if self._interrupt is None:
            self.exit()
        else:
            self._interrupt()

    def _type(self, event: events.Key) -> None:
        table = self.frame.table
        if event.key == "escape":
            table.filter, self.frame.is_filtering = "", False
        elif event.key == "enter":
            self.frame.is_filtering = False
        elif event.key == "backspace":
            table.filter = table.filter[:-1]
        elif event.is_printable and event.character:
            table.filter += event.character

    def _command(self, key: str, character: str) -> None:
        frame, table = self.frame, self.frame.table
        moves = {"up": -1, "k": -1, "down": 1, "j": 1, "pageup": -_PAGE, "pagedown": _PAGE}
        moves |= {"home": -(10**6), "end": 10**6}
        letters = {column.key: place for place, column in enumerate(COLUMNS)}
        if frame.is_help or character == "?":
            frame.is_help = not frame.is_help
        elif key in ("q", "f10"):
            self.exit()
        elif key in moves:
            self._move(moves[key])
        elif character in ("<", ">"):
            table.sort = (table.sort + (1 if character == ">" else -1)) % len(COLUMNS)
        elif character in letters:
            table.sort = letters[character]
        elif character == "I":
            table.is_reversed = not table.is_reversed
        elif character == "/":
            frame.is_filtering = True
        elif key == "escape":
            table.filter = ""

    def _move(self, by: int) -> None:
        keys = [row.key for row in shown_rows(self.frame)]
        if keys:
            selected = self.frame.table.selected
            place = keys.index(selected) if selected in keys else 0
            self.frame.table.selected = keys[max(0, min(len(keys) - 1, place + by))]


def watch(watcher: Watcher) -> int:
    """Show the screen until the user quits."""
    LiveScreen(Frame(watcher)).run()
    return 0
