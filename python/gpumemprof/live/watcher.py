"""All recordings that are watched at once: finds new ones, and looks at each."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

from gpumemprof.live.targets import Target
from gpumemprof.live.watched import WatchedRecording

__all__ = ["Watcher"]

_MOST_RECORDINGS = 256
# For all recordings of one look: the screen must go on while long ones are caught up with.
_LOOK_SECONDS = 0.2


class Watcher:
    """Follows everything that the targets stand for.

    Attributes:
        recordings: in the order in which they were found.
        left_out: how many are not watched, because there are too many.
    """

    def __init__(
        self,
        targets: Sequence[Target],
        search_seconds: float = 1.0,
        most_sites: int = 30,
        most_steps: int = 120,
    ) -> None:
        """Follow these.

        Args:
            targets: what to follow.
            search_seconds: how often to look for new recordings.
            most_sites: how many lines of code a report has.
            most_steps: how many steps it has.
        """
        self.targets = list(targets)
        self._search_seconds = search_seconds
        self._most = (most_sites, most_steps)
        self.recordings: list[WatchedRecording] = []
        self.left_out = 0
        self._known: set[Path] = set()
        self._searched_at: float | None = None

    def look(self, most_seconds: float = _LOOK_SECONDS) -> None:
        """Look at all of them, and for new ones from time to time.

        Args:
            most_seconds: about how long it may take, if much is there to read.
        """
        now = time.monotonic()
        if self._searched_at is None or now - self._searched_at >= self._search_seconds:
            self._searched_at = now
            self._search()
        running = sum(1 for one in self.recordings if not one.state.is_over)
        for recording in self.recordings:
            recording.look(most_seconds / max(1, running))

    @property
    def is_behind(self) -> bool:
        """Whether there is more to read."""
        return any(one.state.name == "reading" for one in self.recordings)

    def _search(self) -> None:
        found = {
            path.resolve(): path for target in self.targets for path in sorted(target.recordings())
        }
        new = [path for whole, path in found.items() if whole not in self._known]
        self._known |= set(found)
        room = _MOST_RECORDINGS - len(self.recordings)
        self.left_out += max(0, len(new) - room)
        self.recordings += [WatchedRecording(path, *self._most) for path in new[: max(0, room)]]

    @property
    def is_over(self) -> bool:
        """Whether nothing more can come: all have ended, and no new ones are expected."""
        if any(target.grows for target in self.targets):
            return False
        return all(one.state.is_over for one in self.recordings)

    def why_none(self) -> list[str]:
        """One sentence for each target, if nothing is there to watch."""
        return [] if self.recordings else [target.why_none() for target in self.targets]
