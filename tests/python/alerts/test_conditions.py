"""What can be written as an alert's condition, and what it means."""

from __future__ import annotations

import gpumemprof
import pytest
from gpumemprof.alerts.condition import METRICS, parse
from gpumemprof.alerts.reading import Reading
from gpumemprof.alerts.rule import EventRule, Rule
from gpumemprof.failure.spot import Event

GIB = 1 << 30


@pytest.mark.parametrize(
    ("text", "metric", "bound", "is_share"),
    [
        ("headroom<5%", "headroom", 0.05, True),
        (" Reserved >= 70 GiB ", "reserved", 70 * GIB, False),
        ("allocated>1.5GB", "allocated", 1_500_000_000, False),
        ("growth>60MiB/h", "growth", 1 << 20, False),
        ("growth > 1 MiB / s", "growth", 60 << 20, False),
        ("fragmentation>30%", "fragmentation", 0.3, True),
        ("retries>0", "retries", 0, False),
        ("used>90%", "used", 0.9, True),
        (" Out_of_memory ", "out_of_memory", 0, False),
        ("exception", "exception", 0, False),
    ],
)
def test_a_condition_is_read(text: str, metric: str, bound: float, is_share: bool) -> None:
    condition = parse(text)
    assert (condition.metric, condition.is_share) == (metric, is_share)
    assert condition.bound == pytest.approx(bound)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "headroom",
        "headroom<",
        "<5%",
        "headroom=5%",
        "headroom<-5%",
        "headroom<5%%",
        "headroom<500%",
        "memory>5GiB",
        "allocated>5",
        "allocated>5 apples",
        "allocated>5GiB/min",
        "growth>5GiB",
        "growth>5%/min",
        "growth>5GiB/fortnight",
        "fragmentation>2GiB",
        "retries>2GiB",
        "allocated>99999999999999999999999GiB",
    ],
)
def test_what_is_no_condition_gets_one_sentence_with_what_is_accepted(text: str) -> None:
    with pytest.raises(gpumemprof.UsageError) as caught:
        parse(text)
    sentence = str(caught.value)
    assert "\n" not in sentence
    assert f"'{text}'" in sentence
    assert all(metric in sentence for metric in METRICS)


def reading(time_s: float, allocated: int, **more: int | None) -> Reading:
    return Reading(
        time_s=time_s,
        unix_s=1e9 + time_s,
        allocated=allocated,
        reserved=more.get("reserved", allocated),
        allocated_peak=more.get("peak", allocated),
        allocated_low=allocated,
        reserved_peak=more.get("reserved", allocated),
        reserved_at_peak=more.get("reserved", allocated),
        capacity=more.get("capacity", 80 * GIB),
        outside=more.get("outside", 0),
        limit=more.get("limit"),
    )


def test_a_crossing_fires_once_until_the_value_has_come_back() -> None:
    rule = Rule(parse("allocated>10GiB"), "cuda:0", min_interval_s=0)
    levels = [9, 11, 12, 10, 10.1, 9.9, 10.5, 9, 11]
    fired = [
        rule.look(reading(second, round(level * GIB)), None) is not None
        for second, level in enumerate(levels)
    ]
    # 9.9 is within the margin of 2 %: not yet back.
    assert fired == [False, True, False, False, False, False, False, False, True]


def test_a_fast_sequence_of_crossings_is_one_alert_that_counts_the_others() -> None:
    rule = Rule(parse("allocated>10GiB"), "cuda:0", min_interval_s=60)
    alerts = [
        rule.look(reading(second, (20 if second % 2 else 1) * GIB), None) for second in range(64)
    ]
    raised = [alert for alert in alerts if alert is not None]
    assert [alert.timestamp for alert in raised] == [1e9 + 1, 1e9 + 61]
    assert raised[1].suppressed == 29
    assert "29 more times" in raised[1].message


def test_a_crossing_that_lasts_is_raised_late_rather_than_never() -> None:
    rule = Rule(parse("allocated>10GiB"), "cuda:0", min_interval_s=60)
    levels = {0: 11, 5: 1, 10: 11}
    level, fired = 0, []
    for second in range(200):
        level = levels.get(second, level)
        alert = rule.look(reading(second, level * GIB), None)
        if alert is not None:
            fired.append((second, alert.suppressed))
    assert fired == [(0, 0), (60, 0)]


def test_headroom_is_what_the_card_or_the_limit_leaves_at_the_peak() -> None:
    seen = reading(0, 10 * GIB, peak=30 * GIB, outside=20 * GIB)
    assert seen.headroom == 30 * GIB
    assert reading(0, 10 * GIB, peak=30 * GIB, limit=35 * GIB).headroom == 5 * GIB
    assert reading(0, 10 * GIB, outside=None).headroom is None
    rule = Rule(parse("headroom<50%"), "cuda:0", 0)
    alert = rule.look(seen, None)
    assert alert is not None
    assert alert.value == pytest.approx(30 / 80)
    assert "37.5 %" in alert.message


def test_what_is_unknown_raises_nothing() -> None:
    rule = Rule(parse("headroom<50%"), "cuda:0", 0)
    assert rule.look(reading(0, GIB, capacity=None), None) is None
    assert Rule(parse("growth>1MiB/min"), "cuda:0", 0).look(reading(0, GIB), None) is None


def test_an_event_that_comes_again_and_again_is_an_alert_once_a_minute() -> None:
    rule = EventRule(parse("out_of_memory"), 60.0)
    event = Event("out_of_memory", "out of memory on cuda:0", "cuda:0", 1000.0)
    first = rule.happened(event, 0.0)
    assert first is not None
    assert (str(first), first.device, first.timestamp) == (event.text, "cuda:0", 1000.0)
    assert rule.happened(event, 1.0) is None
    assert rule.happened(event._replace(kind="exception"), 61.0) is None
    later = rule.happened(event, 61.0)
    assert later is not None
    assert later.suppressed == 1
    assert str(later) == f"{event.text}; it happened 1 more times since the last alert"
