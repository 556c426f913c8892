"""Fine-tuning XGLM in a plain loop: fp16 autocast, GradScaler, clipping, perplexity between
epochs.
"""

import argparse

import torch
import torch.nn.functional as F
from torch.nn.utils import clip_grad_norm_
from torch.utils.data import DataLoader, TensorDataset
from transformers import XGLMConfig, XGLMForCausalLM


def make_loader(rows, length, vocab, batch_size, seed, shuffle):
    generator = torch.Generator().manual_seed(seed)
    ids = torch.randint(4, vocab, (rows, length), generator=generator)
    lengths = torch.randint(length // 2, length + 1, (rows, 1), generator=generator)
    mask = (torch.arange(length)[None] < lengths).long()
    ids = ids.masked_fill(mask == 0, 1)
    return DataLoader(TensorDataset(ids, mask), batch_size=batch_size, shuffle=shuffle)


def token_loss(logits, ids, mask):
    logits = logits[:, :-1].float()
    targets = ids[:, 1:].masked_fill(mask[:, 1:] == 0, -100)
    return F.cross_entropy(logits.reshape(-1, logits.size(-1)), targets.reshape(-1))


@torch.no_grad()
def evaluate(model, loader, device, autocast):
    model.eval()
    total, batches = 0.0, 0
    for ids, mask in loader:
        ids, mask = ids.to(device), mask.to(device)
        with autocast():
            logits = model(input_ids=ids, attention_mask=mask).logits
        total += token_loss(logits, ids, mask).item()
        batches += 1
    model.train()
    return total / batches


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--batch-size", type=int, default=8)
    parser.add_argument("--length", type=int, default=512)
    parser.add_argument("--d-model", type=int, default=1024)
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--vocab", type=int, default=80000)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--steps-per-epoch", type=int, default=3)
    parser.add_argument("--lr", type=float, default=2e-5)
    args = parser.parse_args()

    torch.manual_seed(0)
    device = torch.device(args.device)
    half = device.type == "cuda"
    model = XGLMForCausalLM(
        XGLMConfig(
            vocab_size=args.vocab,
            max_position_embeddings=args.length,
            d_model=args.d_model,
            ffn_dim=args.d_model * 4,
            num_layers=args.layers,
            attention_heads=args.d_model // 64,
            layerdrop=0.0,
            use_cache=False,
        )
    ).to(device)
    model.train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr, weight_decay=0.01)
    scaler = torch.amp.GradScaler(device.type, init_scale=2.0**12, enabled=half)

    def autocast():
        return torch.autocast(device.type, dtype=torch.float16, enabled=half)

    rows = args.batch_size * args.steps_per_epoch
    train = make_loader(rows, args.length, args.vocab, args.batch_size, 0, True)
    valid = make_loader(args.batch_size * 2, args.length, args.vocab, args.batch_size * 2, 1, False)

    for epoch in range(args.epochs):
        for step, (ids, mask) in enumerate(train):
            ids, mask = ids.to(device, non_blocking=True), mask.to(device, non_blocking=True)
            with autocast():
                logits = model(input_ids=ids, attention_mask=mask).logits
                loss = token_loss(logits, ids, mask)
            scaler.scale(loss).backward()
            scaler.unscale_(optimizer)
            norm = clip_grad_norm_(model.parameters(), 1.0)
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad(set_to_none=True)
            print(f"epoch {epoch} step {step} loss {loss.item():.3f} norm {norm.item():.2f}")
        print(f"epoch {epoch} validation loss {evaluate(model, valid, device, autocast):.3f}")


if __name__ == "__main__":
    main()
