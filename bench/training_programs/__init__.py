"""Small training programs of many kinds, each reporting at several moments what its tensors hold.

A program is a function that takes a ``Reporter``; ``bench/program_sources.py`` records it and
compares the recording with what the program reported. Those in ``SHARDED`` need two processes.
"""

from __future__ import annotations

from typing import Callable

from . import loops, models, optimizers, sharded
from .reporter import Reporter

__all__ = ["PROGRAMS", "SHARDED", "Reporter"]

Program = Callable[[Reporter], None]
SHARDED: dict[str, Program] = {
    program.__name__: program
    for program in (
        sharded.ddp,
        sharded.ddp_bucket_view,
        sharded.ddp_static_graph,
        sharded.ddp_accumulation,
        sharded.zero_redundancy,
        sharded.fsdp2,
        sharded.fsdp2_not_resharded,
        sharded.fsdp2_mixed,
        sharded.fsdp1,
        sharded.fsdp1_orig_params,
    )
}
PROGRAMS: dict[str, Program] = {
    program.__name__: program
    for program in (
        optimizers.adamw,
        models.averaged_model,
        models.gan,
        models.adapters,
        models.lstm,
        models.sparse_embedding,
        models.tied_weights,
        optimizers.lbfgs,
        loops.accumulation,
        optimizers.step_in_backward,
        loops.loader_with_workers,
        loops.loader_without_workers,
        models.bare_tensors,
        models.bare_tensors_with_optimizer,
        models.inference_with_cache,
        loops.compiled,
        loops.compiled_inductor,
        loops.autocast,
        loops.checkpointed,
        loops.checkpointed_reentrant,
        models.functional_call,
        models.functional_call_trained,
        models.halved_halfway,
        models.halved_for_inference,
        models.state_assigned,
        optimizers.optimizer_reloaded,
        optimizers.group_added,
        models.copied_model,
        loops.exception_in_a_step,
        optimizers.exception_in_the_optimizer,
        loops.two_losses,
        loops.gradient_penalty,
        loops.clipped,
        loops.evaluated_between,
        loops.data_on_the_device,
        optimizers.optimizer_of_the_users,
        optimizers.master_weights,
        models.moving_buffer,
        optimizers.late_state,
    )
}
