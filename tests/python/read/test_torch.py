"""Snapshots that torch itself creates on a machine without a GPU."""

from __future__ import annotations

import pickle
import subprocess
import sys
from typing import Any

import gpumemprof
import pytest

pytest.importorskip("torch")


# In a process of its own: torch's profiler looks at every thread of the process it is started in.
PROGRAM = """
import pickle, sys, torch
from torch.cuda import _memory_viz
torch.set_num_threads(1)
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
with open(sys.argv[1], "wb") as file:
    pickle.dump(_memory_viz._profile_to_snapshot(profile), file)
"""


@pytest.fixture(scope="module")
def snapshot(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """A snapshot made from a profile of two training steps on the CPU."""
    path = tmp_path_factory.mktemp("profile") / "snapshot.pickle"
    subprocess.run([sys.executable, "-c", PROGRAM, str(path)], check=True, timeout=120)
    made: dict[str, Any] = pickle.loads(path.read_bytes())
    return made


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
