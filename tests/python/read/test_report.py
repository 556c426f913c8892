"""The report from Python: exact to the byte, and the same as the command's."""

from __future__ import annotations

import json
import os
from pathlib import Path

import gpumemprof
import pytest
from conftest import snapshot_path

TRAINING = Path(__file__).parents[2] / "data/traces/cpu_training.gmp"


def highest(truth, in_steps, in_stats):
    """Training runs reset the peaks at every step; the counters' own hold only the last one."""
    phases = [phase for step in truth.get("steps", []) for phase in step.values()]
    in_phases = [phase[in_steps] for phase in phases if isinstance(phase, dict)]
    return max([truth["stats"][in_stats], *in_phases])


def test_has_the_peaks_of_the_counters(recording, truth):
    (device,) = recording.devices
    assert device.device == "cuda:0"
    assert device.exact_from_event == 0
    assert device.peak.allocated_bytes == highest(truth, "peak", "allocated_bytes.all.peak")
    assert device.peak_reserved_bytes == highest(truth, "peak_reserved", "reserved_bytes.all.peak")


def test_ends_as_the_counters_do(recording, truth):
    stats = truth["stats"]
    assert recording.devices[0].end == gpumemprof.End(
        allocated_bytes=stats["allocated_bytes.all.current"],
        active_bytes=stats["active_bytes.all.current"],
        reserved_bytes=stats["reserved_bytes.all.current"],
        requested_bytes=stats["requested_bytes.all.current"],
        inactive_split_bytes=stats["inactive_split_bytes.all.current"],
        segments=stats["segment.all.current"],
    )


def test_counts_what_the_counters_count(recording, truth):
    stats = truth["stats"]
    counters = recording.devices[0].counters
    # Where empty_cache() could have left the same events, retries are unknown.
    retries = None if counters.alloc_retries is None else stats["num_alloc_retries"]
    assert counters == gpumemprof.Counters(
        allocations=stats["allocation.all.allocated"],
        frees=stats["allocation.all.freed"],
        segment_allocs=stats["segment.all.allocated"],
        segment_frees=stats["segment.all.freed"],
        alloc_retries=retries,
        ooms=stats["num_ooms"],
    )


def test_explains_every_byte_of_the_peak(recording):
    (device,) = recording.devices
    sizes = [group.bytes for group in device.live_at_peak]
    assert sum(sizes) == device.peak.allocated_bytes
    assert sizes == sorted(sizes, reverse=True)
    assert all(group.blocks > 0 for group in device.live_at_peak)


def test_is_what_the_command_prints(name, recording, command):
    path = snapshot_path(name)
    printed = command("report", path, "--json")
    assert printed.returncode == 0
    assert printed.stderr == ""
    assert json.loads(printed.stdout) == recording.report()
    assert json.loads(recording.to_json()) == recording.report()


@pytest.mark.parametrize("at", ["peak", "end", 0, 100])
def test_takes_the_same_questions_as_the_command(at, command, oom_run):
    arguments = ["--json", "--at", at, "--top", 2, "--device", "cuda:0"]
    printed = command("report", oom_run.path, *arguments)
    assert json.loads(printed.stdout) == oom_run.report(at=at, top=2, device="cuda:0")


def test_shows_the_peak_of_a_step(command):
    recording = gpumemprof.load(TRAINING)
    (device,) = recording.report()["devices"]
    for step in device["steps"]:
        at = f"step:{step['step']}"
        (found,) = recording.report(at=at)["devices"]
        assert found["at"]["event_index"] == step["peak_event"]
        assert found["at"]["allocated_bytes"] == step["peak_bytes"]
        assert found["at"]["step"] == step["step"]
        printed = command("report", TRAINING, "--json", "--at", at)
        assert json.loads(printed.stdout) == recording.report(at=at)
    tree = json.loads(command("tree", TRAINING, "--json", "--at", "step:5").stdout)
    table = json.loads(command("table", TRAINING, "--json", "--at", "step:5").stdout)
    assert tree["devices"][0]["bytes"] == table["bytes"] == device["steps"][5]["peak_bytes"]


@pytest.mark.parametrize("device", [0, "0", "cuda:0"])
def test_finds_a_device_by_number_and_name(device, oom_run):
    assert oom_run.report(device=device) == oom_run.report()


@pytest.mark.parametrize(
    ("question", "sentence"),
    [
        ({"at": 951}, "there is no event 951 on cuda:0; its events are 0 to 950"),
        ({"at": -1}, "at takes an event's number, 'step:5', 'peak' or 'end', not -1"),
        ({"at": "start"}, "at takes an event's number, 'step:5', 'peak' or 'end', not 'start'"),
        ({"at": "step:2"}, "there is no step 2 on cuda:0; "),
        ({"at": "step:-2"}, "at takes an event's number, 'step:5', "),
        ({"device": 7}, "there is no device 7 in it; it holds cuda:0"),
        ({"device": "gpu"}, "device takes a number or a name such as 'cuda:0', not 'gpu'"),
        ({"device": 10**6}, "there is no device 1000000"),
        ({"top": -1}, "top takes a number that is 0 or more, not -1"),
    ],
)
def test_says_what_is_wrong_with_a_question(question, sentence, oom_run):
    with pytest.raises(gpumemprof.UsageError) as caught:
        oom_run.report(**question)
    assert sentence in str(caught.value)
    assert caught.value.code == "usage"
    assert isinstance(caught.value, ValueError)


def test_prints_as_the_command_does(oom_run, command):
    # The command fits the terminal; the object has its own width.
    printed = command("report", oom_run.path, env={**os.environ, "COLUMNS": "100"})
    assert str(oom_run) == printed.stdout
    assert str(oom_run).startswith("gpt2_b32_fp32_adamw_oom.pickle.gz: ")
    assert oom_run.to_text(width=60) != str(oom_run)


def test_shows_itself_in_one_line(oom_run):
    assert repr(oom_run) == f"<Recording {oom_run.path!r}: cuda:0, 951 events>"


def test_names_the_frames_of_a_stack(oom_run):
    top = oom_run.devices[0].live_at_peak[0]
    assert any(str(frame).startswith("/train/case.py:52 ") for frame in top.stack)
    with pytest.raises(IndexError):
        oom_run.stack(10**9)


def test_opens_paths_of_every_kind(tmp_path, oom_run):
    odd = tmp_path / "a b\udcff.pickle.gz"  # a name that is not UTF-8
    odd.write_bytes(snapshot_path("mlp_b64_fp32_adam").read_bytes())
    for path in [odd, str(odd)]:
        recording = gpumemprof.load(path)
        assert recording.path == str(odd)
        assert recording.devices[0].exact_from_event == 0
        assert recording.report()["devices"] == gpumemprof.load(odd).report()["devices"]
    assert oom_run.path == str(snapshot_path("gpt2_b32_fp32_adamw_oom"))
