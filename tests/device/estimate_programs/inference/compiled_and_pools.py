"""Small programs with compiled models, graphed callables and pools: compiled_and_pools.py NAME

Prints both peaks of the allocator.
"""

import sys

import torch
import torch.nn as nn
import torch.nn.functional as F


def train(model, make, steps=4, compiled=None, autocast=False):
    call = compiled if compiled is not None else model
    opt = torch.optim.AdamW(model.parameters(), lr=1e-4)
    for _ in range(steps):
        x, y = make()
        with torch.autocast("cuda", dtype=torch.bfloat16, enabled=autocast):
            out = call(x)
            loss = F.cross_entropy(out.float().flatten(0, -2), y.flatten())
        loss.backward()
        opt.step()
        opt.zero_grad()


class Block(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(d), nn.LayerNorm(d)
        self.qkv, self.o = nn.Linear(d, 3 * d), nn.Linear(d, d)
        self.a, self.b = nn.Linear(d, 4 * d), nn.Linear(4 * d, d)
        self.drop = nn.Dropout(0.1)

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = self.qkv(self.n1(x)).view(b, t, 3, d // 64, 64).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.drop(self.o(y.transpose(1, 2).reshape(b, t, d)))
        return x + self.drop(self.b(F.gelu(self.a(self.n2(x)))))


class LM(nn.Module):
    def __init__(self, d=512, layers=4, vocab=16000):
        super().__init__()
        self.e = nn.Embedding(vocab, d)
        self.h = nn.ModuleList(Block(d) for _ in range(layers))
        self.n, self.head = nn.LayerNorm(d), nn.Linear(d, vocab, bias=False)

    def forward(self, x):
        x = self.e(x)
        for h in self.h:
            x = h(x)
        return self.head(self.n(x))


class Conv(nn.Module):
    def __init__(self):
        super().__init__()
        c = [3, 64, 128, 256]
        self.f = nn.Sequential(
            *[
                m
                for i in range(3)
                for m in (
                    nn.Conv2d(c[i], c[i + 1], 3, padding=1, bias=False),
                    nn.BatchNorm2d(c[i + 1]),
                    nn.ReLU(),
                    nn.MaxPool2d(2),
                )
            ]
        )
        self.head = nn.Linear(256, 100)

    def forward(self, x):
        return self.head(self.f(x).mean((2, 3)))


def tokens(b=16, t=512, vocab=16000):
    return lambda: (
        torch.randint(0, vocab, (b, t), device="cuda"),
        torch.randint(0, vocab, (b, t), device="cuda"),
    )


def images():
    return torch.randn(64, 3, 128, 128, device="cuda"), torch.randint(0, 100, (64,), device="cuda")


def lm_fp32():
    torch.set_float32_matmul_precision("high")
    m = LM().cuda()
    train(m, tokens(), compiled=torch.compile(m))


def lm_bf16():
    m = LM().cuda()
    train(m, tokens(), compiled=torch.compile(m), autocast=True)


def lm_dynamic():
    m = LM().cuda()
    c = torch.compile(m, dynamic=True)
    for t in (256, 384, 512):
        train(m, tokens(t=t), steps=1, compiled=c, autocast=True)


def lm_reduce():
    m = LM().cuda()
    train(m, tokens(), steps=5, compiled=torch.compile(m, mode="reduce-overhead"), autocast=True)


def lm_infer():
    m = LM().cuda().eval()
    c = torch.compile(m)
    with torch.no_grad():
        for _ in range(3):
            c(torch.randint(0, 16000, (16, 512), device="cuda"))


def conv_bf16():
    m = Conv().cuda()
    train(m, images, compiled=torch.compile(m), autocast=True)


def conv_fp32():
    m = Conv().cuda()
    train(m, images, compiled=torch.compile(m))


def step_compiled():
    m = LM().cuda()
    opt = torch.optim.AdamW(m.parameters(), lr=1e-4)

    @torch.compile
    def step():
        opt.step()

    for _ in range(3):
        x, y = tokens()()
        F.cross_entropy(m(x).flatten(0, -2), y.flatten()).backward()
        step()
        opt.zero_grad()


def graphed_callables():
    m = nn.Sequential(nn.Linear(1024, 4096), nn.GELU(), nn.Linear(4096, 1024)).cuda()
    x = torch.randn(512, 1024, device="cuda", requires_grad=True)
    g = torch.cuda.make_graphed_callables(m, (x,))
    opt = torch.optim.SGD(m.parameters(), lr=0.1, momentum=0.9)
    for _ in range(4):
        g(torch.randn(512, 1024, device="cuda", requires_grad=True)).square().mean().backward()
        opt.step()
        opt.zero_grad()


def mem_pool():
    keep = torch.empty(40 << 20, device="cuda", dtype=torch.uint8)
    pool = torch.cuda.MemPool()
    with torch.cuda.use_mem_pool(pool):
        a = torch.empty(100 << 20, device="cuda", dtype=torch.uint8)
        b = torch.empty(30 << 20, device="cuda", dtype=torch.uint8)
    del a
    c = torch.empty(90 << 20, device="cuda", dtype=torch.uint8)
    with torch.cuda.use_mem_pool(pool):
        d = torch.empty(80 << 20, device="cuda", dtype=torch.uint8)
    del b, d, c
    torch.cuda.empty_cache()
    print("after empty_cache", torch.cuda.memory_reserved())
    del pool
    print("after the pool", torch.cuda.memory_reserved())
    torch.empty(200 << 20, device="cuda", dtype=torch.uint8)
    print("kept", keep.numel())


def graph_twice():
    m = nn.Sequential(*[nn.Linear(2048, 2048) for _ in range(4)]).cuda()
    x = torch.randn(4096, 2048, device="cuda")
    with torch.no_grad():
        for _ in range(3):
            s = torch.cuda.Stream()
            with torch.cuda.stream(s):
                m(x)
            g = torch.cuda.CUDAGraph()
            with torch.cuda.graph(g, pool=torch.cuda.graph_pool_handle()):
                y = m(x)
            g.replay()
            print("reserved", torch.cuda.memory_reserved())
            del g, y
    torch.cuda.empty_cache()
    print("reserved", torch.cuda.memory_reserved())


if __name__ == "__main__":
    torch.manual_seed(0)
    globals()[sys.argv[1]]()
    s = torch.cuda.memory_stats()
    print("PEAK", sys.argv[1], s["allocated_bytes.all.peak"], s["reserved_bytes.all.peak"])
