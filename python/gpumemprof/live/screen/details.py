"""What the screen says about the selected row."""

from __future__ import annotations

from typing import Any

from rich.text import Text

from gpumemprof.live.figures import Row, shown_bytes, shown_count, shown_percent
from gpumemprof.live.screen.shapes import bar, fit, fit_start, load_style, right, sparkline
from gpumemprof.printable import printable

__all__ = ["detail_lines"]

_LABEL = 10
_BYTES = 9
_SOURCE_COLORS = {
    "parameters": "blue",
    "gradients": "magenta",
    "optimizer state": "cyan",
    "optimizer_state": "cyan",
    "activations": "green",
    "inputs": "yellow",
    "temporaries": "white",
}
_SEVERITY_STYLES = {"failure": "bold red", "warning": "yellow", "note": "cyan"}
_MOST_NOTICES = 4
_TWO_COLUMNS = 130
_MOST_STEPS = 100


def _line(label: str, *parts: str | Text | tuple[str, str]) -> Text:
    line = Text(fit(label, _LABEL), style="")
    line.stylize("bold cyan")
    for part in parts:
        if isinstance(part, tuple):
            line.append(part[0], style=part[1] or "not bold default")
        elif isinstance(part, Text):
            line.append_text(part)
        else:
            line.append(part, style="not bold default")
    return line


def detail_lines(row: Row, width: int, height: int) -> list[Text]:
    """At most `height` lines; what matters most first."""
    lines = [_title(row, width), *_notices(row, width)]
    if not row.device:
        lines.append(_line("Memory", "none has been used yet"))
        return lines[:height]
    lines += _card(row, width)
    lines.append(_line("Memory", *_memory(row)))
    lines.append(_line("Peak", *_peak(row)))
    lines.append(_line("Health", *_health(row)))
    lines += _steps(row, width)
    room = height - len(lines)
    if width >= _TWO_COLUMNS:
        half = width // 2 - 2
        pairs = _sources(row, half, room), _sites(row, width - half - 4, room)
        lines += _beside(*pairs, half)
    elif room > 0:
        sources = _sources(row, width, max(1, min(6, room // 2)))
        lines += sources
        lines += _sites(row, width, room - len(sources))
    return lines[:height]


def _title(row: Row, width: int) -> Text:
    report, state = row.recording.report, row.recording.state
    words = [row.program]
    if row.pid is not None:
        words.append(f"process {row.pid}")
    if row.rank is not None:
        world = report.get("world_size")
        words.append(f"rank {row.rank}" + (f" of {world}" if world else ""))
    if row.device:
        words.append(" ".join(filter(None, [row.device["device"], row.device["card"]])))
    name = printable(" · ".join(words))
    style = "bold red" if state.is_bad else "bold"
    text = printable(state.text)
    room = max(10, width - len(text) - 3)
    line = Text(fit(name, room) if len(name) > room else name, style="bold")
    line.append(" · ").append(text, style=style)
    line.truncate(width, overflow="ellipsis")
    return line


def _notices(row: Row, width: int) -> list[Text]:
    found = [(note, "yellow") for note in row.recording.notes]
    found += [
        (notice["text"], _SEVERITY_STYLES[notice["severity"]])
        for notice in row.recording.report.get("notices", [])
        if notice["device"] in (None, row.device.get("device"))
    ]
    lines = []
    for text, style in found[:_MOST_NOTICES]:
        line = Text("! " + fit(printable(text), width - 2).rstrip(), style=style)
        lines.append(line)
    if len(found) > _MOST_NOTICES:
        lines.append(Text(f"! and {len(found) - _MOST_NOTICES} more", style="yellow"))
    return lines


def _card(row: Row, width: int) -> list[Text]:
    share, total = row.filled, row.bytes_of("total_bytes")
    if share is None:
        if not row.device["has_pool"]:
            text = "CPU tensors: there is no card, so no percentage"
        elif total is None:
            text = "its size is not known yet, so no percentage"
        else:
            text = f"{shown_bytes(total)}; how much is used is not known"
        return [_line("Card", text)]
    words = f" {right(shown_percent(share), 7)}  headroom {shown_bytes(row.headroom_bytes)}"
    words += f" of {shown_bytes(total)}"
    limit = row.bytes_of("limit_bytes")
    if limit is not None:
        words += f" (limited to {shown_bytes(limit)})"
    room = max(8, min(60, width - _LABEL - len(words)))
    return [_line("Card", bar(share, room, load_style(share)), (words, load_style(share)))]


def _memory(row: Row) -> list[str]:
    device = row.device
    words = [f"allocated {right(shown_bytes(device['allocated_bytes']), _BYTES)}"]
    if device["has_pool"]:
        words.append(f"   reserved {right(shown_bytes(device['reserved_bytes']), _BYTES)}")
        outside = shown_bytes(row.bytes_of("outside_pool_bytes"))
        words.append(f"   outside the pool {right(outside, _BYTES)}")
    return words


def _peak(row: Row) -> list[str]:
    recent = shown_bytes(row.device["recent_peak_allocated_bytes"])
    whole = shown_bytes(row.device["peak_allocated_bytes"])
    is_exact = "" if row.device["is_exact"] else "   (not exact: see Health)"
    return [f"now {right(recent, _BYTES + 6)}   of the run {right(whole, _BYTES - 1)}{is_exact}"]


def _health(row: Row) -> list[tuple[str, str]]:
    device = row.device
    retries = device["retries"]
    parts = [_counted("failed", device["out_of_memory"], "bold red")]
    if device["has_pool"]:
        if retries is None:
            parts.append((f"retries up to {device['unclear_retries']}", "yellow"))
        else:
            parts.append(_counted("retries", retries, "yellow"))
    parts.append(_counted("lost events", device["lost_events"], "yellow"))
    if not device["is_exact"] and device["lost_events"] == 0:
        parts.append(("start not recorded", "yellow"))
    rate = row.recording.events_per_second
    parts.append((f"{right(shown_count(rate), 7)} events/s", ""))
    joined: list[tuple[str, str]] = []
    for part in parts:
        joined += [part, ("   ", "")]
    return joined[:-1]


def _counted(what: str, count: int, style: str) -> tuple[str, str]:
    return f"{what} {count:,}", style if count else ""


def _steps(row: Row, width: int) -> list[Text]:
    steps: list[dict[str, Any]] = row.device["steps"]
    if not steps:
        return [_line("Steps", "none seen yet")]
    room = max(1, min(_MOST_STEPS, width - _LABEL - 17))
    shown = steps[-room:]
    peaks = [step["peak_bytes"] for step in shown]
    floors = [step["floor_bytes"] for step in shown]
    low, high = min(floors), max(peaks)
    last = steps[-1]["step"]
    blank = " " * (room - len(shown))
    return [
        _line(
            "Steps",
            sparkline(peaks, low, high, "not bold yellow"),
            f"{blank} peak  {right(shown_bytes(peaks[-1]), _BYTES)}",
        ),
        _line(
            f"{right(shown_count(last), _LABEL - 2)}  ",
            sparkline(floors, low, high, "not bold blue"),
            f"{blank} floor {right(shown_bytes(floors[-1]), _BYTES)}",
        ),
    ]


def _sources(row: Row, width: int, most: int) -> list[Text]:
    sources = sorted(row.device["sources"].items(), key=lambda item: -item[1])
    sources = [item for item in sources if item[1] > 0]
    total = sum(value for _, value in sources)
    if not sources:
        return [_line("Sources", "nothing is allocated")][:most]
    name_width = 16
    room = max(4, min(60, width - _LABEL - name_width - _BYTES - 8))
    lines: list[Text] = []
    for name, value in sources[: max(0, most)]:
        shown = name.replace("_", " ")
        style = _SOURCE_COLORS.get(name, "white")
        share = value / total
        figures = f" {right(shown_bytes(value), _BYTES)} {right(f'{share:.0%}', 4)}"
        label = "" if lines else "Sources"
        lines.append(
            _line(label, fit(shown, name_width), bar(share, room, f"not bold {style}"), figures)
        )
    return lines


def _sites(row: Row, width: int, most: int) -> list[Text]:
    lines: list[Text] = []
    for site in row.device["sites"][: max(0, most)]:
        if site["file"] is None:
            place = "no stack was recorded"
        else:
            place = f"{site['file']}:{site['line']}"
            place = f"backward of {place}" if site["is_backward"] else f"{place} {site['function']}"
        count = shown_count(site["blocks"])
        blocks = f"{right(count, 7)} {'block ' if site['blocks'] == 1 else 'blocks'}"
        figures = f" {right(shown_bytes(site['bytes']), _BYTES)}{blocks}"
        room = max(10, min(70, width - _LABEL - len(figures)))
        label = "" if lines else "Lines"
        grows = site["growth_bytes_per_step"] is not None
        style = "not bold yellow" if grows else "not bold default"
        text = (fit_start(printable(place), room), style)
        lines.append(_line(label, text, figures + (" ▲" if grows else "")))
    return lines


def _beside(left: list[Text], right_side: list[Text], width: int) -> list[Text]:
    lines = []
    for number in range(max(len(left), len(right_side))):
        line = left[number].copy() if number < len(left) else Text()
        line.truncate(width)
        line.pad_right(max(0, width + 2 - line.cell_len))
        if number < len(right_side):
            line.append_text(right_side[number])
        lines.append(line)
    return lines
