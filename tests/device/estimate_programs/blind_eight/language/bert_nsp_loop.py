"""BERT pre-training from scratch in float32 with TF32 matmuls: masked words and next sentences."""

import argparse

import torch
from torch.utils.data import DataLoader, IterableDataset
from transformers import BertConfig, BertForPreTraining


class SentencePairs(IterableDataset):
    def __init__(self, count, length, vocab):
        self.count, self.length, self.vocab = count, length, vocab

    def __iter__(self):
        generator = torch.Generator().manual_seed(11)
        for _ in range(self.count):
            ids = torch.randint(5, self.vocab, (self.length,), generator=generator)
            kinds = torch.zeros(self.length, dtype=torch.long)
            kinds[self.length // 2 :] = 1
            labels = torch.full((self.length,), -100)
            chosen = torch.rand(self.length, generator=generator) < 0.15
            labels[chosen] = ids[chosen]
            ids[chosen] = 4
            following = torch.randint(0, 2, (), generator=generator)
            yield {
                "input_ids": ids,
                "token_type_ids": kinds,
                "attention_mask": torch.ones_like(ids),
                "labels": labels,
                "next_sentence_label": following,
            }


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--length", type=int, default=256)
    parser.add_argument("--hidden", type=int, default=768)
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--vocab", type=int, default=30522)
    parser.add_argument("--steps", type=int, default=4)
    args = parser.parse_args()

    torch.backends.cuda.matmul.allow_tf32 = True
    torch.manual_seed(0)
    device = torch.device("cuda")
    model = BertForPreTraining(
        BertConfig(
            vocab_size=args.vocab,
            hidden_size=args.hidden,
            num_hidden_layers=args.layers,
            num_attention_heads=args.hidden // 64,
            intermediate_size=4 * args.hidden,
        )
    ).to(device)
    no_decay = ("bias", "LayerNorm.weight")
    groups = [
        {
            "params": [p for n, p in model.named_parameters() if not n.endswith(no_decay)],
            "weight_decay": 0.01,
        },
        {
            "params": [p for n, p in model.named_parameters() if n.endswith(no_decay)],
            "weight_decay": 0.0,
        },
    ]
    optimizer = torch.optim.AdamW(groups, lr=1e-4, eps=1e-6)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(1.0, (step + 1) / 10))
    data = SentencePairs(args.batch_size * args.steps, args.length, args.vocab)
    for step, batch in enumerate(DataLoader(data, batch_size=args.batch_size)):
        batch = {key: value.to(device) for key, value in batch.items()}
        model.zero_grad()
        outputs = model(**batch)
        outputs.loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        words = outputs.prediction_logits.argmax(-1)
        known = batch["labels"] != -100
        right = (words[known] == batch["labels"][known]).float().mean().item()
        print(f"step {step} loss {outputs.loss.item():.3f} masked words right {right:.3f}")


if __name__ == "__main__":
    main()
