"""One rank of several: groups, collectives and what they allocate, without other ranks."""

from __future__ import annotations

import math

import pytest
import torch
import torch.distributed as dist
from counting_memory import CARD
from gpumemprof.estimate.engine import session
from gpumemprof.estimate.engine.failures import CannotEstimate
from gpumemprof.estimate.patches.distributed.chunks import LazyChunks
from gpumemprof.estimate.ranks import letters
from gpumemprof.estimate.ranks.mailbox import MISSING, Mailbox
from gpumemprof.estimate.ranks.selection import usual_ranks
from gpumemprof.estimate.ranks.world import World

# A machine for each rank: in this process autograd knows of one card.
WORLD = World(rank=2, per_node=1, nodes=4)


@pytest.fixture
def rank(memory, monkeypatch):
    for name, value in WORLD.environment().items():
        monkeypatch.setenv(name, value)
    with session.estimating(CARD, session.Settings(world=WORLD), memory) as running:
        dist.init_process_group("nccl")
        yield running
        if dist.is_initialized():
            dist.destroy_process_group()


def test_the_program_sees_its_rank_and_the_backend_it_asked_for(rank):
    assert (dist.get_rank(), dist.get_world_size(), dist.get_backend()) == (2, 4, "nccl")
    group = dist.new_group([1, 2])
    assert (dist.get_rank(group), dist.get_world_size(group)) == (1, 2)
    assert dist.new_group([0, 1]) == dist.GroupMember.NON_GROUP_MEMBER


def test_other_ranks_have_the_values_of_this_one(rank):
    count = torch.tensor([3], device="cuda")
    dist.all_reduce(count)
    assert count.item() == 12
    dist.all_reduce(count, op=dist.ReduceOp.MAX)
    assert count.item() == 12
    gathered = torch.empty(8, dtype=torch.int64, device="cuda")
    dist.all_gather_into_tensor(gathered, torch.tensor([5, 6], device="cuda"))
    assert gathered.tolist() == [5, 6] * 4
    part = torch.empty(1, dtype=torch.int64, device="cuda")
    dist.reduce_scatter_tensor(part, torch.tensor([1, 2, 3, 4], device="cuda"))
    assert part.item() == 3 * 4
    objects = [None] * 4
    dist.all_gather_object(objects, {"loss": 1})
    assert objects == [{"loss": 1}] * 4


def test_nothing_waits_for_another_rank(rank):
    dist.barrier()
    tensor = torch.ones(3, device="cuda")
    sent = dist.P2POp(dist.isend, tensor, 3)
    received = dist.P2POp(dist.irecv, torch.empty(3, device="cuda"), 1)
    for work in dist.batch_isend_irecv([sent, received]):
        work.wait()
    dist.send(tensor, 3)
    dist.recv(tensor, 1)
    with pytest.raises(CannotEstimate, match="rank 2 waits for an object that rank 0 would send"):
        dist.broadcast_object_list([None], src=0)


def test_collectives_allocate_what_torch_allocates_around_them(rank, memory):
    tensor = torch.empty(1000, device="cuda")
    memory.sizes.clear()
    dist.all_reduce(tensor)
    assert memory.sizes == []
    # NCCL's backend gathers into one tensor and copies it to the list.
    parts = [torch.empty(1000, device="cuda") for _ in range(4)]
    dist.all_gather(parts, tensor)
    assert memory.sizes == [4000] * 4 + [16000]
    memory.sizes.clear()
    from torch.distributed import _functional_collectives as functional

    functional.all_gather_tensor(tensor, 0, dist.group.WORLD).wait()
    assert memory.sizes == [16000]


def test_data_parallel_training_has_buckets(rank, memory):
    weights = torch.nn.Linear(64, 64, bias=False).to("cuda")
    before = memory.allocated_bytes
    model = torch.nn.parallel.DistributedDataParallel(weights)
    assert memory.allocated_bytes - before == 64 * 64 * 4
    for _ in range(2):
        model(torch.ones(2, 64, device="cuda")).sum().backward()
    held = [size for size in memory.live.values() if size == 64 * 64 * 4]
    assert len(held) == 3  # weight, bucket and gradient


def test_a_mesh_knows_its_coordinates(rank):
    from torch.distributed.device_mesh import init_device_mesh

    mesh = init_device_mesh("cuda", (2, 2), mesh_dim_names=("dp", "tp"))
    assert list(mesh.get_coordinate()) == [1, 0]
    assert list(mesh["dp"].get_coordinate()) == [1]
    assert mesh["tp"].mesh.tolist() == [2, 3]


def test_sharded_tensors_are_counted_once(rank, memory):
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Shard, distribute_tensor

    mesh = init_device_mesh("cuda", (4,))
    tensor = distribute_tensor(torch.empty(400, 10, device="cuda"), mesh, [Shard(0)])
    memory.sizes.clear()
    doubled = tensor * 2  # Its shape is found with a fake tensor of all 400 rows.
    assert doubled.shape == (400, 10)
    assert memory.sizes == [100 * 10 * 4]


def test_a_world_without_nproc_is_one_sentence(estimate, monkeypatch):
    monkeypatch.delenv("RANK", raising=False)
    with pytest.raises(CannotEstimate, match="--nproc 8"):
        dist.init_process_group("nccl")
    with pytest.raises(CannotEstimate, match="--nproc 8 --nnodes 2"):
        dist.init_process_group("nccl", rank=0, world_size=16)
    with pytest.raises(CannotEstimate, match="--nproc 2"):
        torch.multiprocessing.spawn(print, nprocs=2)


def test_ranks_pass_objects_on(tmp_path):
    folder = tmp_path / "mailbox"
    letters.prepare(folder, [0, 1])
    first, second = (Mailbox(World(rank, 4, 1, str(folder))) for rank in (0, 1))
    first.post("objects", ["a"])
    first.post("objects", ["b"])
    assert [second.take("objects", 0) for _ in range(2)] == [["a"], ["b"]]
    letters.mark_ended(folder, 0)
    assert second.take("objects", 0) is MISSING  # It has ended.
    assert second.take("objects", 3) is MISSING  # It is not predicted.


@pytest.mark.parametrize(
    ("per_node", "nodes", "ranks"),
    [
        (8, 1, list(range(8))),
        (1, 4, [0, 1, 2, 3]),
        (8, 2, [0, 1, 7, 8, 15]),
        (8, 128, [0, 1, 7, 1016, 1023]),
        (1, 16, [0, 1, 15]),
    ],
)
def test_ranks_that_can_differ_are_predicted(per_node, nodes, ranks):
    assert usual_ranks(per_node, nodes) == ranks


@pytest.mark.parametrize(("shape", "count", "dim"), [((10, 3), 4, 0), ((5, 8), 8, 1), ((3,), 8, 0)])
def test_chunks_that_are_made_when_asked_for_are_torchs_own(shape, count, dim):
    tensor = torch.arange(math.prod(shape)).view(shape)
    made = list(torch.chunk(tensor, count, dim=dim))
    made += [tensor.new_empty(0)] * (count - len(made))
    lazy = LazyChunks(tensor, count, dim)
    assert len(lazy) == count
    assert [each.tolist() for each in lazy] == [each.tolist() for each in made]
    assert lazy[-1].shape == made[-1].shape
    assert lazy[0].data_ptr() == tensor.data_ptr()
