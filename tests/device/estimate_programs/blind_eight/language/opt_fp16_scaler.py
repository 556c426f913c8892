"""OPT with fp16 autocast, a gradient scaler and clipping; the scale is logged."""

import argparse

import torch
from torch.amp import GradScaler, autocast
from torch.utils.data import DataLoader, Dataset
from transformers import OPTConfig, OPTForCausalLM


class Texts(Dataset):
    def __init__(self, count, longest, vocab):
        self.count, self.longest, self.vocab = count, longest, vocab

    def __len__(self):
        return self.count

    def __getitem__(self, i):
        generator = torch.Generator().manual_seed(i)
        length = int(torch.randint(self.longest // 2, self.longest + 1, (1,), generator=generator))
        ids = torch.ones(self.longest, dtype=torch.long)
        ids[:length] = torch.randint(4, self.vocab, (length,), generator=generator)
        mask = torch.zeros(self.longest, dtype=torch.long)
        mask[:length] = 1
        return ids, mask


def train(args):
    config = OPTConfig(
        vocab_size=args.vocab,
        hidden_size=args.hidden,
        word_embed_proj_dim=args.hidden,
        ffn_dim=4 * args.hidden,
        num_hidden_layers=args.layers,
        num_attention_heads=args.hidden // 64,
        max_position_embeddings=args.longest,
        dropout=0.1,
        use_cache=False,
    )
    model = OPTForCausalLM(config).cuda()
    model.train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-5)
    scaler = GradScaler("cuda", init_scale=2.0**14)
    data = Texts(args.batch_size * args.steps, args.longest, args.vocab)
    loader = DataLoader(data, batch_size=args.batch_size, shuffle=True, num_workers=args.workers)
    for step, (ids, mask) in enumerate(loader):
        ids, mask = ids.cuda(), mask.cuda()
        labels = ids.masked_fill(mask == 0, -100)
        optimizer.zero_grad()
        with autocast("cuda", dtype=torch.float16):
            loss = model(input_ids=ids, attention_mask=mask, labels=labels).loss
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm=1.0)
        scaler.step(optimizer)
        scaler.update()
        print(f"{step} {loss.item():.4f} scale {scaler.get_scale():.0f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=8)
    parser.add_argument("--longest", type=int, default=512)
    parser.add_argument("--hidden", type=int, default=1024)
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--vocab", type=int, default=50272)
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--workers", type=int, default=2)
    torch.manual_seed(0)
    train(parser.parse_args())
