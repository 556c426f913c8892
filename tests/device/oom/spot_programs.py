"""The programs of oom_spot.py: each runs out of memory in its own way."""

from __future__ import annotations

OPENING = """
import ctypes, os, sys, threading, time, torch, gpumemprof
GIB, MIB = 1 << 30, 1 << 20
def block(size): return torch.empty(int(size), dtype=torch.uint8, device="cuda")
torch.zeros(1, device="cuda")
total = torch.cuda.get_device_properties(0).total_memory
def limit(size): torch.cuda.set_per_process_memory_fraction(size / total)
def settle(): time.sleep(1.5)  # so that the card is sampled
def runtime():
    maps = open("/proc/self/maps").read().splitlines()
    return ctypes.CDLL(next(line.split()[-1] for line in maps if "libcudart" in line))
def take_outside(size):
    held = ctypes.c_void_p()
    return runtime().cudaMalloc(ctypes.byref(held), ctypes.c_size_t(int(size)))
def fill_outside():
    for size in (8 * GIB, 256 * MIB, 2 * MIB):
        while take_outside(size) == 0: pass
    runtime().cudaGetLastError()  # or torch would raise it at its next kernel
    settle()
"""
HOLDER = """
import sys, torch
free, _ = torch.cuda.mem_get_info()
held = torch.empty(free - (6 << 30), dtype=torch.uint8, device="cuda")
print("held", flush=True)
sys.stdin.read()
"""
PROGRAMS = {
    "limit": """
limit(4 * GIB)
keep = block(3 * GIB)
block(2 * GIB)
""",
    # Each gap contains whole pages, which expandable segments give back.
    "gaps": """
limit(4.25 * GIB)
whole = [block(GIB) for _ in range(4)]
del whole
parts = [block(256 * MIB) for _ in range(16)]
parts = parts[::4]
block(2 * GIB)
""",
    # No gap contains a page of 20 MiB: no setting of the allocator helps.
    "small_gaps": """
limit(4.25 * GIB)
bits = [block(5 * MIB) for _ in range(800)]
bits = bits[::4]
block(2 * GIB)
""",
    "other_process": """
keep = [block(GIB) for _ in range(3)]
settle()
block(6 * GIB)
""",
    "outside_pool": """
free, _ = torch.cuda.mem_get_info()
assert take_outside(free - 2 * GIB) == 0
settle()
block(4 * GIB)
""",
    "shortage": """
free, _ = torch.cuda.mem_get_info()
keep = [block(free - 3 * GIB)]
settle()
block(4 * GIB)
""",
    "one_request": """
keep = [block(MIB * n) for n in range(1, 20)]
settle()
block(0.999 * total)
""",
    "absurd": """
block(2 * total)
""",
    "graph_pool": """
limit(4 * GIB)
static = torch.zeros(MIB, device='cuda')
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    big = block(3 * GIB)
    big.fill_(1)
    del big
block(2 * GIB)
""",
    "mem_pool": """
limit(4 * GIB)
pool = torch.cuda.MemPool()
with torch.cuda.use_mem_pool(pool):
    big = block(3 * GIB)
del big
block(2 * GIB)
""",
    "deferred_frees": """
limit(4 * GIB)
side = torch.cuda.Stream()
big = block(3 * GIB)
graph = torch.cuda.CUDAGraph()
torch.cuda.synchronize()
with torch.cuda.graph(graph):
    big.record_stream(side)
    del big
    block(2 * GIB)
""",
    "leak": """
limit(3 * GIB)
kept = []
for step in range(200):
    gpumemprof.step()
    work = block(400 * MIB)
    kept.append(block(24 * MIB + step * 512))
    del work
""",
    "host_memory": """
keep = block(GIB)
torch.empty(1 << 50, dtype=torch.uint8)
""",
    # torch notices at its next kernel what a library was refused before.
    "driver": """
keep = block(GIB)
assert take_outside(4 * total) != 0
torch.ones(4, device="cuda")
torch.cuda.synchronize()
sys.exit("nothing was raised")
""",
    "nccl": """
import torch.distributed as dist
dist.init_process_group(
    "nccl", init_method=f"file://{os.getcwd()}/rendezvous", rank=0, world_size=1
)
numbers = torch.ones(4, device="cuda")
fill_outside()
dist.all_reduce(numbers)
torch.cuda.synchronize()
sys.exit("nothing was raised")
""",
    "caught": """
limit(4 * GIB)
size = 16 * GIB
while True:
    try:
        keep = block(size)
        break
    except torch.OutOfMemoryError:
        size //= 2
print('fits', size)
""",
    "no_such_device": """
keep = block(GIB)
torch.empty(MIB, device=f'cuda:{torch.cuda.device_count()}')
""",
    # On a machine with one card the recording is moved to a second one afterwards.
    "second_device": """
device = torch.cuda.device_count() - 1
torch.cuda.set_device(device)
limit(4 * GIB)
keep = block(3 * GIB)
block(2 * GIB)
""",
    "backward": """
limit(2.8 * GIB)
x = torch.ones(GIB // 4, device='cuda', requires_grad=True)
y = x * x
y.sum().backward()
""",
    "optimizer": """
limit(3.5 * GIB)
p = torch.nn.Parameter(torch.ones(GIB // 4, device='cuda'))
optimizer = torch.optim.Adam([p], foreach=False)
p.grad = torch.ones_like(p)
optimizer.step()
""",
    "thread": """
limit(2 * GIB)
thread = threading.Thread(target=lambda: block(3 * GIB))
thread.start()
thread.join()
print('went on')
""",
    "started": """
limit(2 * GIB)
keep = block(GIB)
block(1.5 * GIB)
""",
    "variable": """
limit(2 * GIB)
keep = block(GIB)
block(1.5 * GIB)
""",
    "torchrun": """
limit(2 * GIB)
keep = block(GIB)
block(1.5 * GIB)
""",
    # The pages of main memory are written, so that they are really taken.
    "host_killed": """
keep, parts = block(GIB), []
while True:
    parts.append(bytearray(os.urandom(1 << 20) * 64))
    time.sleep(0.05)
""",
}
