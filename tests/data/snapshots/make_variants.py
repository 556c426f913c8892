"""Writes one small snapshot in every pickle protocol into variants/; run it to make them anew.

The snapshot has what is awkward in a real one: frames and stacks that are shared, two devices of
which the first has no events, names outside ASCII, numbers that need more than 32 bits, and fields
this version does not know.
"""

import pickle
from pathlib import Path

BASE = 0x7F4E_0000_0000
MIB = 1 << 20


def small_snapshot() -> dict:
    main = {"name": "main", "filename": "/train/main.py", "line": 7}
    forward = {"name": "forward_größe_内存", "filename": "/train/model.py", "line": 41}
    outer = [main]
    inner = [forward, main]
    extra = {"compile_context": "N/A", "user_metadata": "", "pool_id": (0, 0)}

    def entry(action: str, addr: int, size: int, time: int, frames: list, **more: object) -> dict:
        event = {"action": action, "addr": addr, "size": size, "stream": 0, "time_us": time}
        return event | extra | {"frames": frames} | more

    now = 1_760_000_000_000_000
    events = [
        entry("segment_alloc", BASE, 2 * MIB, now, inner),
        entry("alloc", BASE, 1000, now + 1, inner),
        entry("alloc", BASE + 1024, 512, now + 2, outer, user_metadata="step 1"),
        entry("free_requested", BASE, 1000, now + 3, outer),
        entry("free_completed", BASE, 1000, now + 3, outer),
        entry(
            "alloc",
            BASE,
            600,
            now + 4,
            inner,
            compile_context="0/0",
            some_new_field=[1, 2, {"a": None}],
        ),
        entry("action_of_the_future", BASE, 1, now + 5, inner),
    ]
    block = {
        "address": BASE,
        "size": 1024,
        "requested_size": 600,
        "state": "active_allocated",
        "frames": inner,
    }
    second = {
        "address": BASE + 1024,
        "size": 512,
        "requested_size": 512,
        "state": "active_allocated",
        "frames": outer,
    }
    rest = {
        "address": BASE + 1536,
        "size": 2 * MIB - 1536,
        "requested_size": 0,
        "state": "inactive",
        "frames": [],
    }
    segment = {
        "device": 1,
        "address": BASE,
        "total_size": 2 * MIB,
        "allocated_size": 1536,
        "active_size": 1536,
        "requested_size": 1112,
        "stream": 0,
        "segment_type": "small",
        "segment_pool_id": (0, 0),
        "is_expandable": False,
        "frames": inner,
        "blocks": [block, second, rest],
    }
    settings = {
        "PYTORCH_CUDA_ALLOC_CONF": "garbage_collection_threshold:0.75",
        "max_split_size": -1,
        "garbage_collection_threshold": 0.75,
        "expandable_segments": False,
        "roundup_power2_divisions": {str(1 << power): 0 for power in range(16)},
    }
    annotations = [
        {"name": "step", "stage": "START", "device": 1, "time_us": now},
        {"name": "step", "stage": "END", "device": 1, "time_us": now + 5},
    ]
    return {
        "segments": [segment],
        "device_traces": [[], events],
        "allocator_settings": settings,
        "external_annotations": annotations,
    }


if __name__ == "__main__":
    folder = Path(__file__).parent / "variants"
    for protocol in range(6):
        (folder / f"protocol_{protocol}.pickle").write_bytes(
            pickle.dumps(small_snapshot(), protocol)
        )
