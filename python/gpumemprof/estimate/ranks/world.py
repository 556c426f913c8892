"""The place of one rank among all, and the environment in which torchrun would start it."""

from __future__ import annotations

import socket
from dataclasses import dataclass
from pathlib import Path

__all__ = ["World", "rank_path"]

# No rank connects to it: every process has a store of its own.
_ADDRESS = "127.0.0.1"
_PORT = "29500"


@dataclass(frozen=True)
class World:
    """One rank of `nodes` machines with `per_node` processes each."""

    rank: int
    per_node: int
    nodes: int = 1
    mailbox: str = ""
    """The folder through which ranks that are predicted pass objects on; empty if there is none."""

    @property
    def size(self) -> int:
        """How many ranks there are."""
        return self.per_node * self.nodes

    @property
    def local_rank(self) -> int:
        """Which of its machine's processes it is, and which card it uses."""
        return self.rank % self.per_node

    @property
    def node(self) -> int:
        """On which machine it runs."""
        return self.rank // self.per_node

    def environment(self) -> dict[str, str]:
        """What torchrun sets."""
        return {
            "RANK": str(self.rank),
            "LOCAL_RANK": str(self.local_rank),
            "WORLD_SIZE": str(self.size),
            "LOCAL_WORLD_SIZE": str(self.per_node),
            "GROUP_RANK": str(self.node),
            "GROUP_WORLD_SIZE": str(self.nodes),
            "ROLE_RANK": str(self.rank),
            "ROLE_WORLD_SIZE": str(self.size),
            "ROLE_NAME": "default",
            "MASTER_ADDR": _ADDRESS,
            "MASTER_PORT": _PORT,
            "TORCHELASTIC_RUN_ID": "none",
            "TORCHELASTIC_RESTART_COUNT": "0",
            "TORCHELASTIC_MAX_RESTARTS": "0",
        }


def rank_path(path: Path, world: World) -> Path:
    """The file of one rank, named as ``gpumemprof run`` names it."""
    if world.size == 1:
        return path
    return path.with_name(f"{path.stem}.{socket.gethostname()}.rank{world.rank}{path.suffix}")
