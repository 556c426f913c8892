"""Preferences without a reference model (ORPO) on a small Llama: bf16 autocast, chosen and
rejected together.
"""

import argparse

import torch
import torch.nn.functional as F
from torch.utils.data import DataLoader
from transformers import LlamaConfig, LlamaForCausalLM


class Pairs(torch.utils.data.Dataset):
    def __init__(self, count, longest, vocab):
        self.items = []
        for _ in range(count):
            prompt = torch.randint(3, vocab, (longest // 4,))
            answers = [
                torch.randint(3, vocab, (int(torch.randint(longest // 4, 3 * longest // 4, ())),))
                for _ in range(2)
            ]
            self.items.append((prompt, *answers))

    def __len__(self):
        return len(self.items)

    def __getitem__(self, i):
        return self.items[i]


def collate(batch):
    rows, labels = [], []
    for which in (1, 2):
        for item in batch:
            rows.append(torch.cat([item[0], item[which]]))
            labels.append(torch.cat([torch.full_like(item[0], -100), item[which]]))
    pad = torch.nn.utils.rnn.pad_sequence
    ids = pad(rows, batch_first=True, padding_value=0)
    return ids, (ids != 0).long(), pad(labels, batch_first=True, padding_value=-100)


def mean_log_probability(logits, labels):
    labels = labels[:, 1:]
    mask = labels != -100
    log = logits[:, :-1].float().log_softmax(-1)
    picked = log.gather(2, labels.clamp(min=0).unsqueeze(2)).squeeze(2)
    return (picked * mask).sum(1) / mask.sum(1)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=3)
    parser.add_argument("--longest", type=int, default=768)
    parser.add_argument("--width", type=int, default=1024)
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--vocab", type=int, default=32000)
    args = parser.parse_args()
    torch.manual_seed(0)
    model = LlamaForCausalLM(
        LlamaConfig(
            vocab_size=args.vocab,
            hidden_size=args.width,
            intermediate_size=args.width * 11 // 4,
            num_hidden_layers=args.layers,
            num_attention_heads=args.width // 64,
            num_key_value_heads=args.width // 256,
            use_cache=False,
        )
    ).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=8e-6)
    loader = DataLoader(
        Pairs(5 * args.batch_size, args.longest, args.vocab), args.batch_size, collate_fn=collate
    )
    for step, (ids, mask, labels) in enumerate(loader):
        ids, mask, labels = ids.cuda(), mask.cuda(), labels.cuda()
        with torch.autocast("cuda", torch.bfloat16):
            logits = model(input_ids=ids, attention_mask=mask).logits
        chosen, rejected = mean_log_probability(logits, labels).chunk(2)
        odds = (chosen - rejected) - (torch.log1p(-chosen.exp()) - torch.log1p(-rejected.exp()))
        loss = -chosen.mean() - 0.1 * F.logsigmoid(odds).mean()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        print(step, loss.item(), (chosen > rejected).float().mean().item())


if __name__ == "__main__":
    main()
