"""Graph networks, sparse matrices, and detection."""

from __future__ import annotations

from typing import Any, Callable

import torch
from torch import nn

from estimate_cases.bodies import Body

Op = Callable[[torch.Tensor], Body]
GRAPHS = ((100, 16), (2000, 64), (10000, 32), (3000, 300))
SPARSE = ((50, 16), (1000, 64), (20000, 100), (300, 1000))
DEGREE = 6


def edges(x: torch.Tensor) -> torch.Tensor:
    return torch.randint(0, x.size(0), (2, DEGREE * x.size(0)), device=x.device)


def layer(name: str, *sizes: Any, **options: Any) -> Op:
    """A layer of torch_geometric."""

    def op(x: torch.Tensor) -> Body:
        import torch_geometric

        module = getattr(torch_geometric.nn, name)(x.size(1), *sizes, **options).to(x.device)
        links = edges(x)
        return lambda: module(x, links)

    return op


def pooled(name: str) -> Op:
    def op(x: torch.Tensor) -> Body:
        import torch_geometric

        pool = getattr(torch_geometric.nn, name)
        batch = torch.arange(x.size(0), device=x.device) // 20
        return lambda: pool(x, batch)

    return op


def edge_softmax(x: torch.Tensor) -> Body:
    from torch_geometric.utils import softmax

    links = edges(x)
    return lambda: softmax(x[links[0]], links[1], num_nodes=x.size(0))


def detection(name: str) -> Op:
    def op(x: torch.Tensor) -> Body:
        import torchvision

        boxes = torch.rand(x.size(0), 4, device=x.device) * 100
        boxes[:, 2:] += boxes[:, :2]
        scores = torch.rand(x.size(0), device=x.device)
        kinds = torch.randint(0, 20, (x.size(0),), device=x.device)
        features = torch.rand(2, 64, 50, 40, device=x.device).requires_grad_()
        rois = torch.cat([torch.zeros(x.size(0), 1, device=x.device), boxes], 1)[:1000]
        ops = torchvision.ops
        return {
            "nms": lambda: ops.nms(boxes, scores, 0.5),
            "batched_nms": lambda: ops.batched_nms(boxes, scores, kinds, 0.5),
            "box_iou": lambda: ops.box_iou(boxes[:1000], boxes[:500]),
            "giou": lambda: ops.generalized_box_iou_loss(boxes, boxes + 1),
            "roi_align": lambda: ops.roi_align(features, rois, 7, 0.25, 2),
            "roi_pool": lambda: ops.roi_pool(features, rois, 7, 0.25),
            "focal": lambda: ops.sigmoid_focal_loss(features, features.detach()),
        }[name]

    return op


def graph_ops() -> dict[str, Op]:
    found = {
        "gcn": layer("GCNConv", 32),
        "gat": layer("GATConv", 16, heads=4),
        "gatv2": layer("GATv2Conv", 16, heads=4),
        "sage": layer("SAGEConv", 32),
        "sage_max": layer("SAGEConv", 32, aggr="max"),
        "graph": layer("GraphConv", 32),
        "transformer": layer("TransformerConv", 16, heads=2),
        "softmax": edge_softmax,
    }
    for name in ("global_mean_pool", "global_add_pool", "global_max_pool"):
        found[name] = pooled(name)
    for name in ("nms", "batched_nms", "box_iou", "giou", "roi_align", "roi_pool", "focal"):
        found[name] = detection(name)
    return found


def matrix(x: torch.Tensor) -> torch.Tensor:
    """A sparse square matrix over the rows."""
    links = edges(x)
    values = torch.rand(links.size(1), device=x.device)
    return torch.sparse_coo_tensor(links, values, (x.size(0), x.size(0)))


def sparse(run: Callable[[torch.Tensor, torch.Tensor], Any], is_coalesced: bool = True) -> Op:
    def op(x: torch.Tensor) -> Body:
        made = matrix(x)
        made = made.coalesce() if is_coalesced else made
        return lambda: run(made, x)

    return op


def compressed(run: Callable[[torch.Tensor, torch.Tensor], Any]) -> Op:
    def op(x: torch.Tensor) -> Body:
        made = matrix(x).coalesce().to_sparse_csr()
        return lambda: run(made, x)

    return op


def sparse_step(kind: str) -> Op:
    """Two steps of an optimizer for sparse gradients."""

    def op(x: torch.Tensor) -> Body:
        table = nn.Embedding(x.size(0), x.size(1), sparse=True).to(x.device)
        words = torch.randint(0, x.size(0), (3 * x.size(0),), device=x.device)
        optimizer = getattr(torch.optim, kind)(table.parameters(), lr=0.1)

        def body() -> Any:
            for _ in range(2):
                optimizer.zero_grad()
                table(words).sum().backward()
                optimizer.step()
            return table.weight.detach()

        return body

    return op


def sparse_ops() -> dict[str, Op]:
    return {
        "mm": sparse(lambda a, x: torch.sparse.mm(a, x)),
        "mm_uncoalesced": sparse(lambda a, x: torch.sparse.mm(a, x), False),
        "mm_csr": compressed(lambda a, x: a @ x),
        "mm_csr_plain": compressed(lambda a, x: a @ x.detach()),
        "addmm": sparse(lambda a, x: torch.sparse.addmm(x, a, x)),
        "mv": sparse(lambda a, x: a @ x[:, 0].detach()),
        "coalesce": sparse(lambda a, x: a.coalesce().values(), False),
        "to_dense": sparse(lambda a, x: a.to_dense() if x.size(0) < 3000 else x, False),
        "to_csr": sparse(lambda a, x: a.to_sparse_csr().values()),
        "from_dense": sparse(lambda a, x: (x.detach() > 1).float().to_sparse().values()),
        "transpose": sparse(lambda a, x: a.t().coalesce().values()),
        "sum": sparse(lambda a, x: torch.sparse.sum(a, 1).to_dense()),
        "softmax": sparse(lambda a, x: torch.sparse.softmax(a, 1).values()),
        "mul": sparse(lambda a, x: (a * 2).values()),
        "add": sparse(lambda a, x: (a + a).coalesce().values()),
        "matmul_sparse": sparse(lambda a, x: torch.sparse.mm(a, a).coalesce().values()),
        "sparse_adam": sparse_step("SparseAdam"),
        "sgd": sparse_step("SGD"),
        "adagrad": sparse_step("Adagrad"),
    }
