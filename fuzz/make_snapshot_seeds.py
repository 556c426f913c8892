"""Writes the seeds of snapshot_fuzzer into corpus/snapshot: small snapshots of every shape."""

import gzip
import pickle
from pathlib import Path

BASE = 0x7F4E_0000_0000
MIB = 1 << 20


def event(action: str, addr: int, size: int, **more: object) -> dict:
    return {
        "action": action,
        "addr": addr,
        "size": size,
        "stream": 0,
        "time_us": 1_760_000_000_000_000,
    } | more


def block(addr: int, size: int, requested: int, state: str = "active_allocated") -> dict:
    return {
        "address": addr,
        "size": size,
        "requested_size": requested,
        "state": state,
        "frames": [],
    }


def segment(addr: int, size: int, blocks: list, **more: object) -> dict:
    return {
        "device": 0,
        "address": addr,
        "total_size": size,
        "stream": 0,
        "segment_type": "small" if size == 2 * MIB else "large",
        "segment_pool_id": (0, 0),
        "is_expandable": False,
        "frames": [],
        "blocks": blocks,
    } | more


def free(addr: int, size: int) -> list:
    return [event("free_requested", addr, size), event("free_completed", addr, size)]


def plain() -> dict:
    frames = [
        {"name": "f", "filename": "a.py", "line": 1},
        {"name": "g", "filename": "a.py", "line": 2},
    ]
    trace = [
        event("segment_alloc", BASE, 20 * MIB, frames=frames),
        event("alloc", BASE, 5 * MIB, frames=frames),
        event("alloc", BASE + 5 * MIB, 3 * MIB + 1, frames=frames[:1]),
        *free(BASE, 5 * MIB),
        event("segment_alloc", BASE + 32 * MIB, 2 * MIB),
        event("alloc", BASE + 32 * MIB, 100),
        event("alloc", BASE, 2 * MIB, user_metadata="x", compile_context="0/0", pool_id=(0, 1)),
        {"action": "oom", "device_free": 5, "size": 1 << 40, "stream": 0},
        event("segment_alloc", BASE + 64 * MIB, 2 * MIB),
        event("segment_free", BASE + 64 * MIB, 2 * MIB),
        event("snapshot", 0, 0),
    ]
    third = 3 * MIB + 512
    used = [
        block(BASE, 2 * MIB, 2 * MIB),
        block(BASE + 2 * MIB, 3 * MIB, 0, "inactive"),
        block(BASE + 5 * MIB, third, 3 * MIB + 1),
        block(BASE + 5 * MIB + third, 15 * MIB - third, 0, "inactive"),
    ]
    small = [
        block(BASE + 32 * MIB, 512, 100),
        block(BASE + 32 * MIB + 512, 2 * MIB - 512, 0, "inactive"),
    ]
    return {
        "segments": [segment(BASE, 20 * MIB, used), segment(BASE + 32 * MIB, 2 * MIB, small)],
        "device_traces": [trace],
        "allocator_settings": {
            "PYTORCH_CUDA_ALLOC_CONF": "max_split_size_mb:64",
            "max_split_size": 64 * MIB,
        },
        "external_annotations": [{"name": "s", "stage": "START", "device": 0, "time_us": 5}],
    }


def late() -> dict:
    snapshot = plain()
    snapshot["device_traces"][0] = snapshot["device_traces"][0][3:]
    return snapshot


def forward() -> dict:
    lines = [
        '  File "/train/main.py", line 7, in main\n    loss = model(x)\n',
        '  File "/train/model.py", line 41, in forward\n',
        "no line of a traceback",
    ]
    trace = [
        event("segment_alloc", BASE, 2 * MIB),
        event("alloc", BASE, 512, forward_frames=lines),
        event("alloc", BASE + 512, 512, frames=[], forward_frames=lines),
        event("alloc", BASE + 1024, 512, forward_frames=[str(line) for line in lines[1:]]),
    ]
    blocks = [block(BASE + 512 * index, 512, 512) for index in range(3)]
    rest = block(BASE + 1536, 2 * MIB - 1536, 0, "inactive")
    return {"segments": [segment(BASE, 2 * MIB, [*blocks, rest])], "device_traces": [trace]}


def expandable() -> dict:
    trace = [
        event("segment_map", BASE, 20 * MIB),
        event("alloc", BASE, 18 * MIB),
        event("segment_map", BASE + 20 * MIB, 20 * MIB),
        event("alloc", BASE + 18 * MIB, 4 * MIB),
        *free(BASE, 18 * MIB),
        event("segment_unmap", BASE, 16 * MIB),
        event("segment_map", BASE, 2 * MIB),
        event("free_requested", BASE + 18 * MIB, 4 * MIB),
    ]
    runs = [
        segment(BASE, 2 * MIB, [block(BASE, 2 * MIB, 0, "inactive")], is_expandable=True),
        segment(
            BASE + 16 * MIB,
            24 * MIB,
            [
                block(BASE + 16 * MIB, 2 * MIB, 0, "inactive"),
                block(BASE + 18 * MIB, 4 * MIB, 4 * MIB, "active_pending_free"),
                block(BASE + 22 * MIB, 18 * MIB, 0, "inactive"),
            ],
            is_expandable=True,
        ),
    ]
    settings = {"expandable_segments": True, "roundup_power2_divisions": {"1": 4, "16": 2}}
    return {"segments": runs, "device_traces": [trace], "allocator_settings": settings}


def old() -> list:
    history = [
        {"addr": BASE, "real_size": 100, "frames": [{"name": "f", "filename": "a.py", "line": 1}]}
    ]
    blocks = [
        {"size": 512, "state": "active_allocated", "history": history},
        {"size": 512, "state": "inactive"},
    ]
    return [
        {
            "device": 0,
            "address": BASE,
            "total_size": 1024,
            "stream": 0,
            "segment_type": "small",
            "blocks": blocks,
        }
    ]


def host() -> dict:
    pinned = segment(BASE, 4096, [block(BASE, 4096, 4000)], device=-1)
    return {
        "segments": [],
        "device_traces": [[], [event("alloc", BASE, 5)]],
        "host_segments": [pinned],
        "host_traces": [[event("alloc", BASE, 4000)]],
    }


if __name__ == "__main__":
    folder = Path(__file__).parent / "corpus" / "snapshot"
    for make in (plain, late, forward, expandable, old, host):
        for protocol in (0, 2, 4):
            (folder / f"{make.__name__}_{protocol}.pickle").write_bytes(
                pickle.dumps(make(), protocol)
            )
    (folder / "plain_4.pickle.gz").write_bytes(gzip.compress(pickle.dumps(plain(), 4), mtime=0))
    (folder / "global_0.pickle").write_bytes(b"cos\nsystem\n(S'true'\ntR.")
