"""What vLLM calls in each of its processes, before it uses the GPU; nothing unless recorded."""

from __future__ import annotations

import os


def register() -> None:
    """Name the parts of vLLM's memory in the recording, if there is one.

    GPUMEMPROF=1 and ``gpumemprof run`` record the process without this.
    """
    is_recorded = os.environ.get("GPUMEMPROF", "0") not in ("", "0")
    if not is_recorded and "GPUMEMPROF_RUN" not in os.environ:
        return
    try:
        from gpumemprof.integrations.serving import label_vllm

        label_vllm()
    except Exception:  # vLLM keeps running, without labels.
        return
