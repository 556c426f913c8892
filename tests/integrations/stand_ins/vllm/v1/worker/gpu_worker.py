"""The worker of one device: each method allocates its part."""

import torch

from vllm.v1.worker.worker_base import WorkerBase


class Worker(WorkerBase):
    def init_device(self) -> None:
        self.communicator = torch.zeros(100)

    def load_model(self, name: str, dummy: bool = False) -> str:
        self.weights = torch.nn.Linear(1000, 1000)
        return name

    def determine_available_memory(self) -> int:
        return self.execute_model(64)

    def initialize_from_config(self, config: object) -> None:
        self.cache = torch.zeros(2_000_000)

    def compile_or_warm_up_model(self) -> None:
        self.graph = torch.zeros(300)

    @torch.inference_mode()
    def execute_model(self, tokens: int) -> int:
        return self.weights(torch.zeros(tokens, 1000)).numel()
