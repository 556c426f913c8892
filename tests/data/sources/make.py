"""Records the snapshots of this folder on a GPU: python make.py NAME OUT.pickle.gz

Writes the snapshot together with the bytes the tensors held after each phase. A moment is marked by
an allocation of a size of its own, right behind it.
"""

import gzip
import os
import pickle
import sys

import torch
from torch import nn
from torch.nn import functional

NAME, OUT = sys.argv[1:]
STEPS = 4
truth = []


class Blocks(nn.Module):
    def __init__(self, width=700):
        super().__init__()
        self.first = nn.Linear(512, width)
        self.layers = nn.ModuleList([nn.Linear(width, width) for _ in range(4)])
        self.norm = nn.BatchNorm1d(width)
        self.last = nn.Linear(width, 512)

    def forward(self, x):
        x = self.first(x).relu()
        for layer in self.layers:
            x = functional.gelu(self.norm(layer(x)))
        return self.last(x)


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(512, 700, 2, batch_first=True)
        self.last = nn.Linear(700, 512)

    def forward(self, x):
        return self.last(self.lstm(x)[0])


def storage_bytes(tensors):
    storages = [t.untyped_storage() for t in tensors if torch.is_tensor(t) and t.is_cuda]
    return sum({storage.data_ptr(): storage.nbytes() for storage in storages}.values())


def mark(moment, model, optimizer):
    size = 7000001 + 2 * len(truth)
    parameters = list(model.parameters())
    states = [value for state in optimizer.state.values() for value in state.values()]
    truth.append(
        {
            "size": size,
            "moment": moment,
            "parameters": storage_bytes(parameters) + storage_bytes(model.buffers()),
            "gradients": storage_bytes([p.grad for p in parameters]),
            "optimizer_state": storage_bytes(states),
        }
    )
    torch.empty(size, dtype=torch.uint8, device="cuda")


def start_recording():
    options = {"max_entries": 900} if NAME == "full_ring" else {}
    torch.cuda.memory._record_memory_history("all", **options)


def main():
    if NAME != "joined_late":
        start_recording()
    model = (Recurrent() if NAME == "lstm" else Blocks()).to("cuda")
    if NAME == "ddp":
        os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="29511")
        torch.distributed.init_process_group("nccl", rank=0, world_size=1)
        model = nn.parallel.DistributedDataParallel(model)
    optimizer = torch.optim.Adam(model.parameters(), fused=False)
    run = torch.compile(model) if NAME == "compiled" else model
    for step in range(STEPS):
        if NAME == "joined_late" and step == 2:
            start_recording()
        shape = (32, 16, 512) if NAME == "lstm" else (256, 512)
        x = torch.randn(*shape).to("cuda")
        mark("input", model, optimizer)
        loss = functional.mse_loss(run(x).float(), x)
        mark("forward", model, optimizer)
        loss.backward()
        mark("backward", model, optimizer)
        optimizer.step()
        mark("step", model, optimizer)
        optimizer.zero_grad()
        mark("zero_grad", model, optimizer)
    with gzip.open(OUT, "w") as file:
        pickle.dump((torch.cuda.memory._snapshot(), truth), file)


main()
