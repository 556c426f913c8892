"""The examples of docs/python.md with their output; also used by tests/device, without pytest."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

PAGE = Path(__file__).resolve().parents[2] / "docs" / "python.md"
FENCE = re.compile(r"^```(\w*)$")
MARK = re.compile(r"^<!-- (raises (?P<error>\w+)|(?P<gpu>gpu only)) -->$")


@dataclass
class Example:
    code: str
    output: str | None = None
    error: str | None = None
    is_gpu_only: bool = False


def examples(text: str) -> list[Example]:
    found: list[Example] = []
    language, lines, mark = "", [], None
    for line in text.splitlines():
        fence = FENCE.match(line)
        if language:
            if fence and not fence[1]:
                if language == "python":
                    found.append(Example("\n".join(lines)))
                    if mark:
                        found[-1].error = mark["error"]
                        found[-1].is_gpu_only = bool(mark["gpu"])
                    mark = None
                elif language == "text":
                    found[-1].output = "\n".join(lines)
                language = ""
            else:
                lines.append(line)
        elif fence:
            language, lines = fence[1], []
        elif match := MARK.match(line):
            mark = match
    return found
