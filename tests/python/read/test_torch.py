"""Snapshots that torch itself creates on a machine without a GPU."""

from __future__ import annotations

import pickle

import gpumemprof
import pytest

torch = pytest.importorskip("torch")


@pytest.fixture(scope="module")
def snapshot():
    """A snapshot made from a profile of two training steps on the CPU."""
    memory_viz = pytest.importorskip("torch.cuda._memory_viz")
    model = torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.ReLU(), torch.nn.Linear(128, 8))
    optimizer = torch.optim.AdamW(model.parameters())
    with torch.profiler.profile(
        activities=[torch.profiler.ProfilerActivity.CPU],
        profile_memory=True,
        record_shapes=True,
        with_stack=True,
    ) as profile:
        for _ in range(2):
            model(torch.randn(32, 64)).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
    return memory_viz._profile_to_snapshot(profile)


@pytest.mark.parametrize("protocol", [2, 4, 5])
def test_opens_a_snapshot_made_from_a_profile(protocol, snapshot, tmp_path):
    path = tmp_path / "profile.pickle"
    path.write_bytes(pickle.dumps(snapshot, protocol))
    recording = gpumemprof.load(path)
    trace = snapshot["device_traces"][-1]
    assert len(recording.events) == len(trace) > 0
    device = recording.devices[-1]
    blocks = [block for segment in snapshot["segments"] for block in segment["blocks"]]
    live = sum(block["size"] for block in blocks if block["state"] == "active_allocated")
    assert device.end.allocated_bytes == live
    # The blocks came from the CPU allocator, which has other rules: only the end is exact.
    assert device.exact_from_event is None
    names = {frame["name"] for event in trace for frame in event["frames"]}
    shown = {frame.name for group in device.live_at_peak for frame in group.stack}
    assert shown
    assert shown <= names
