"""An own 8-bit Adam with block-wise scales and a dynamic code book, on a BERT encoder."""

import argparse

import torch
import torch.nn.functional as F
from transformers import BertConfig, BertModel


def code_book(signed):
    values = torch.cat([torch.zeros(1), torch.logspace(-6, 0, 127 if signed else 255)])
    return torch.cat([-values[1:].flip(0), values]) if signed else values


class Adam8bit(torch.optim.Optimizer):
    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, block=256):
        super().__init__(params, dict(lr=lr, betas=betas, eps=eps, block=block))
        self.books = {}

    def encode(self, x, signed, block):
        flat = F.pad(x.flatten(), (0, -x.numel() % block)).view(-1, block)
        scale = flat.abs().amax(dim=1, keepdim=True).clamp(min=1e-12)
        book = self.book(x.device, signed)
        return torch.bucketize(flat / scale, book[1:]).to(torch.uint8), scale

    def decode(self, codes, scale, like, signed):
        values = self.book(like.device, signed)[codes.int()] * scale
        return values.flatten()[: like.numel()].view_as(like)

    def book(self, device, signed):
        key = (device, signed)
        if key not in self.books:
            self.books[key] = code_book(signed).to(device)
        return self.books[key]

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            b1, b2 = group["betas"]
            for p in group["params"]:
                if p.grad is None:
                    continue
                state = self.state[p]
                if not state:
                    state["step"] = 0
                    state["m"] = self.encode(torch.zeros_like(p), True, group["block"])
                    state["v"] = self.encode(torch.zeros_like(p), False, group["block"])
                state["step"] += 1
                m = self.decode(*state["m"], p, True).lerp_(p.grad, 1 - b1)
                v = self.decode(*state["v"], p, False).mul_(b2)
                v.addcmul_(p.grad, p.grad, value=1 - b2)
                down = (v / (1 - b2 ** state["step"])).sqrt_().add_(group["eps"])
                p.addcdiv_(m, down, value=-group["lr"] / (1 - b1 ** state["step"]))
                state["m"] = self.encode(m, True, group["block"])
                state["v"] = self.encode(v, False, group["block"])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--length", type=int, default=256)
    parser.add_argument("--width", type=int, default=1024)
    parser.add_argument("--layers", type=int, default=16)
    parser.add_argument("--vocab", type=int, default=30522)
    args = parser.parse_args()
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=args.vocab,
        hidden_size=args.width,
        num_hidden_layers=args.layers,
        num_attention_heads=args.width // 64,
        intermediate_size=4 * args.width,
    )
    body = BertModel(config, add_pooling_layer=False)
    model = torch.nn.ModuleDict({"body": body, "head": torch.nn.Linear(args.width, 5)}).cuda()
    optimizer = Adam8bit(model.parameters(), lr=1e-4)
    for step in range(4):
        ids = torch.randint(5, args.vocab, (args.batch_size, args.length), device="cuda")
        stars = torch.randint(0, 5, (args.batch_size,), device="cuda")
        with torch.autocast("cuda", torch.bfloat16):
            hidden = model["body"](ids).last_hidden_state.mean(dim=1)
            loss = F.cross_entropy(model["head"](hidden), stars)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        print(step, loss.item())


if __name__ == "__main__":
    main()
