"""Granite MoE on instruction data in a plain loop: router loss, accumulation with the true count
of tokens, clipping, an evaluation between updates.
"""

import argparse

import torch
import torch.nn.functional as F
from transformers import GraniteMoeConfig, GraniteMoeForCausalLM

IGNORE = -100


def synthetic_batch(generator, batch_size, longest, vocab):
    lengths = torch.randint(longest // 2, longest + 1, (batch_size,), generator=generator)
    width = int(lengths.max())
    ids = torch.randint(4, vocab, (batch_size, width), generator=generator)
    mask = (torch.arange(width)[None] < lengths[:, None]).long()
    labels = ids.clone()
    labels[mask == 0] = IGNORE
    labels[:, : width // 4] = IGNORE
    return {"input_ids": ids * mask, "attention_mask": mask}, labels


def summed_loss(logits, labels):
    logits = logits[:, :-1].flatten(0, 1).float()
    return F.cross_entropy(logits, labels[:, 1:].flatten(), ignore_index=IGNORE, reduction="sum")


class RouterLogits:
    """Keeps what the routers return during a forward pass, for the balancing loss."""

    def __init__(self, model, top_k):
        self.top_k = top_k
        self.logits = []
        for name, module in model.named_modules():
            if name.endswith(".router"):
                module.register_forward_hook(self.keep)

    def keep(self, module, inputs, outputs):
        if module.training:
            self.logits.append(outputs[2])

    def balancing_loss(self, mask):
        tokens = mask.flatten().float()
        losses = []
        for logits in self.logits:
            probabilities = logits.softmax(-1)
            chosen = torch.zeros_like(logits)
            chosen.scatter_(1, logits.topk(self.top_k, dim=-1).indices, 1.0)
            share = (chosen * tokens[:, None]).sum(0) / tokens.sum()
            mean = (probabilities * tokens[:, None]).sum(0) / tokens.sum()
            losses.append(logits.shape[-1] * (share * mean).sum())
        self.logits.clear()
        return torch.stack(losses).mean()


def move(batch, device):
    inputs, labels = batch
    return {k: v.to(device) for k, v in inputs.items()}, labels.to(device)


@torch.inference_mode()
def evaluate(model, batches, device):
    model.eval()
    total, tokens = 0.0, 0
    for batch in batches:
        inputs, labels = move(batch, device)
        logits = model(**inputs).logits
        total += summed_loss(logits, labels).item()
        tokens += int((labels[:, 1:] != IGNORE).sum())
    model.train()
    return total / tokens


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--micro-batch", type=int, default=4)
    parser.add_argument("--accumulation", type=int, default=3)
    parser.add_argument("--longest", type=int, default=1024)
    parser.add_argument("--hidden", type=int, default=768)
    parser.add_argument("--layers", type=int, default=10)
    parser.add_argument("--experts", type=int, default=16)
    parser.add_argument("--top-k", type=int, default=4)
    parser.add_argument("--vocab", type=int, default=49155)
    parser.add_argument("--updates", type=int, default=3)
    args = parser.parse_args()

    torch.manual_seed(0)
    device = args.device
    config = GraniteMoeConfig(
        vocab_size=args.vocab,
        hidden_size=args.hidden,
        intermediate_size=args.hidden,
        num_hidden_layers=args.layers,
        num_attention_heads=args.hidden // 64,
        num_key_value_heads=args.hidden // 128,
        max_position_embeddings=args.longest,
        num_local_experts=args.experts,
        num_experts_per_tok=args.top_k,
        attention_multiplier=0.125,
        use_cache=False,
    )
    model = GraniteMoeForCausalLM(config).to(device, torch.bfloat16).train()
    routers = RouterLogits(model, args.top_k)
    print(f"{sum(p.numel() for p in model.parameters()) / 1e6:.0f} M parameters")
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-5, betas=(0.9, 0.95), foreach=True)

    generator = torch.Generator().manual_seed(0)

    def sample():
        return synthetic_batch(generator, args.micro_batch, args.longest, args.vocab)

    held_out = [sample() for _ in range(2)]
    for update in range(args.updates):
        micro_batches = [sample() for _ in range(args.accumulation)]
        tokens = sum(int((labels[:, 1:] != IGNORE).sum()) for _, labels in micro_batches)
        running = 0.0
        for batch in micro_batches:
            inputs, labels = move(batch, device)
            loss = summed_loss(model(**inputs).logits, labels) / tokens
            router = 0.01 * routers.balancing_loss(inputs["attention_mask"]) / args.accumulation
            (loss + router).backward()
            running += loss.item()
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        print(f"update {update} loss {running:.3f} router {router.item():.4f} norm {norm:.2f}")
        if update % 2 == 0:
            print(f"  held-out loss {evaluate(model, held_out, device):.3f}")


if __name__ == "__main__":
    main()
