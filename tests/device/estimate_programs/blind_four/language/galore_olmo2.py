"""OLMo-2 with GaLore: Adam on gradients projected to low rank, with bases from an SVD."""

import argparse

import torch
from transformers import Olmo2Config, Olmo2ForCausalLM


class GaLore(torch.optim.Optimizer):
    def __init__(self, params, lr, rank, gap, betas=(0.9, 0.999), scale=0.25):
        super().__init__(params, dict(lr=lr, rank=rank, gap=gap, betas=betas, scale=scale))

    @staticmethod
    def basis(grad, rank):
        u, _, vh = torch.linalg.svd(grad.float(), full_matrices=False)
        if grad.size(0) >= grad.size(1):
            return vh[:rank].t().contiguous()
        return u[:, :rank].contiguous()

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            for p in group["params"]:
                self.update(p, group)

    def update(self, p, group):
        state, (b1, b2) = self.state[p], group["betas"]
        low = p.ndim == 2 and min(p.shape) > group["rank"]
        count = state["count"] = state.get("count", 0) + 1
        if low and (count - 1) % group["gap"] == 0:
            state["basis"] = self.basis(p.grad, group["rank"])
        tall = p.ndim == 2 and p.size(0) >= p.size(1)
        grad = p.grad
        if low:
            grad = grad @ state["basis"] if tall else state["basis"].t() @ grad
        if "m" not in state:
            state["m"], state["v"] = torch.zeros_like(grad), torch.zeros_like(grad)
        state["m"].mul_(b1).add_(grad, alpha=1 - b1)
        state["v"].mul_(b2).addcmul_(grad, grad, value=1 - b2)
        step = (state["m"] / (1 - b1**count)) / ((state["v"] / (1 - b2**count)).sqrt_() + 1e-8)
        if low:
            step = step @ state["basis"].t() if tall else state["basis"] @ step
            step.mul_(group["scale"])
        p.sub_(step, alpha=group["lr"])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=4)
    parser.add_argument("--length", type=int, default=512)
    parser.add_argument("--width", type=int, default=768)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--vocab", type=int, default=24000)
    parser.add_argument("--rank", type=int, default=128)
    parser.add_argument("--gap", type=int, default=4)
    parser.add_argument("--steps", type=int, default=4)
    args = parser.parse_args()
    torch.manual_seed(23)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    config = Olmo2Config(
        vocab_size=args.vocab,
        hidden_size=args.width,
        intermediate_size=2 * args.width,
        num_hidden_layers=args.layers,
        num_attention_heads=args.width // 64,
        max_position_embeddings=args.length,
        use_cache=False,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=2,
    )
    model = Olmo2ForCausalLM(config).to(device)
    inner = [p for n, p in model.named_parameters() if "layers" in n]
    outer = [p for n, p in model.named_parameters() if "layers" not in n]
    low_rank = GaLore(inner, lr=5e-3, rank=args.rank, gap=args.gap)
    plain = torch.optim.AdamW(outer, lr=5e-4)
    for step in range(args.steps):
        ids = torch.randint(args.vocab, (args.batch_size, args.length), device=device)
        loss = model(input_ids=ids, labels=ids).loss
        loss.backward()
        for optimizer in (low_rank, plain):
            optimizer.step()
            optimizer.zero_grad()
        print(f"step {step}: {loss.item():.3f}")


if __name__ == "__main__":
    main()
