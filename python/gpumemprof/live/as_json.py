"""What is watched, as JSON for scripts; docs/cli/live.md describes it."""

from __future__ import annotations

import json
import time
from typing import Any

from gpumemprof.live.watched import WatchedRecording
from gpumemprof.live.watcher import Watcher

__all__ = ["SCHEMA_VERSION", "as_json"]

SCHEMA_VERSION = 1


def _recording(recording: WatchedRecording) -> dict[str, Any]:
    rest = {name: value for name, value in recording.report.items() if name != "path"}
    return {
        "path": str(recording.path),
        "state": recording.state.name,
        "state_text": recording.state.text,
        "events_per_second": recording.events_per_second,
        "last_event_seconds": recording.last_event_seconds,
        "notes": recording.notes,
        **rest,
    }


def as_json(watcher: Watcher) -> str:
    """One line."""
    document = {
        "schema_version": SCHEMA_VERSION,
        "time_ns": time.time_ns(),
        "recordings": [_recording(recording) for recording in watcher.recordings],
        "recordings_left_out": watcher.left_out,
        "waiting_for": watcher.why_none(),
    }
    return json.dumps(document)
