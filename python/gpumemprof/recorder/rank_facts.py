"""Which rank of which job this process is, as its launcher says."""

from __future__ import annotations

import os
from collections.abc import Mapping, MutableMapping
from typing import NamedTuple

__all__ = ["launcher_facts", "rank_facts"]


class _Launcher(NamedTuple):
    rank: str
    world_size: str
    local_rank: str


# In the order in which they count: torchrun under srun knows better than Slurm.
_LAUNCHERS = (
    _Launcher("RANK", "WORLD_SIZE", "LOCAL_RANK"),
    _Launcher("SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID"),
    _Launcher("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK"),
    _Launcher("PMI_RANK", "PMI_SIZE", "PMI_LOCAL_RANK"),
)


def launcher_facts(environment: Mapping[str, str]) -> dict[str, str]:
    """The rank, the local rank, the number of ranks and the job; empty if there is no launcher.

    >>> launcher_facts({"SLURM_PROCID": "3", "SLURM_NTASKS": "8", "SLURM_JOB_ID": "77"})
    {'rank': '3', 'world_size': '8', 'job': 'slurm 77'}
    """
    for launcher in _LAUNCHERS:
        rank, size = environment.get(launcher.rank, ""), environment.get(launcher.world_size, "")
        if not rank.isdecimal() or not size.isdecimal() or int(rank) >= int(size):
            continue
        # One task may start its ranks itself; torchrun's single rank is a rank.
        if size == "1" and launcher is not _LAUNCHERS[0]:
            continue
        facts = {"rank": rank, "world_size": size}
        local = environment.get(launcher.local_rank, "")
        if local.isdecimal():
            facts["local_rank"] = local
        facts.update(_job_facts(environment))
        return facts
    return {}


def _job_facts(environment: Mapping[str, str]) -> dict[str, str]:
    facts = {}
    # torchrun's own default is "none", for every job.
    run = environment.get("TORCHELASTIC_RUN_ID", "none")
    slurm = environment.get("SLURM_JOB_ID", "")
    if run != "none":
        facts["job"] = run
    elif slurm:
        step = environment.get("SLURM_STEP_ID", "")
        facts["job"] = f"slurm {slurm}.{step}" if step else f"slurm {slurm}"
    restarts = environment.get("TORCHELASTIC_RESTART_COUNT", "")
    if restarts.isdecimal():
        facts["restart_count"] = restarts
    return facts


# Set by the process that is the rank, for those it starts: its rank and its number.
_CLAIM = "GPUMEMPROF_RANK_PROCESS"


def rank_facts(environment: MutableMapping[str, str] = os.environ) -> dict[str, str]:
    """The same for this process; a process that a rank started, such as a data loader, is no rank.

    Call it in every process that is recorded: the first one with a launcher's variables is the
    rank.
    """
    facts = launcher_facts(environment)
    if not facts:
        return {}
    mine = f"{facts['rank']} {os.getpid()}"
    claimed = environment.setdefault(_CLAIM, mine)
    if claimed == mine:
        return facts
    if claimed.partition(" ")[0] == facts["rank"]:
        return {"helper_of_rank": facts["rank"]}
    environment[_CLAIM] = mine  # It was inherited through a launcher.
    return facts
