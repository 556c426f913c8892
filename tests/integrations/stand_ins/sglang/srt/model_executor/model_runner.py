"""Owns the memory of a model."""

import torch


class ModelRunner:
    def load_model(self) -> None:
        self.model = torch.nn.Linear(1000, 1000)

    def init_memory_pool(self, total_gpu_memory: int) -> None:
        self.token_to_kv_pool = torch.zeros(total_gpu_memory)
