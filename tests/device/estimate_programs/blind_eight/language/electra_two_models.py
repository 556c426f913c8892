"""ELECTRA pre-training: a small generator fills masked words, the discriminator says which were
replaced; both are trained together in fp16.
"""

import argparse

import torch
from transformers import ElectraConfig, ElectraForMaskedLM, ElectraForPreTraining


def make_config(args, share):
    return ElectraConfig(
        vocab_size=args.vocab,
        embedding_size=args.hidden,
        hidden_size=args.hidden // share,
        intermediate_size=4 * args.hidden // share,
        num_hidden_layers=args.layers,
        num_attention_heads=args.hidden // 64 // share or 1,
        max_position_embeddings=args.length,
    )


class Electra(torch.nn.Module):
    def __init__(self, args):
        super().__init__()
        self.generator = ElectraForMaskedLM(make_config(args, 4))
        self.discriminator = ElectraForPreTraining(make_config(args, 1))
        # Both read the same table of words.
        self.generator.electra.embeddings = self.discriminator.electra.embeddings
        self.generator.tie_weights()

    def forward(self, ids, attention_mask, mask_id=4):
        chosen = (torch.rand(ids.shape, device=ids.device) < 0.15) & (attention_mask > 0)
        masked = ids.masked_fill(chosen, mask_id)
        labels = ids.masked_fill(~chosen, -100)
        guess = self.generator(input_ids=masked, attention_mask=attention_mask, labels=labels)
        with torch.no_grad():
            noise = -torch.log(
                -torch.log(torch.rand_like(guess.logits[chosen].float()) + 1e-9) + 1e-9
            )
            sampled = (guess.logits[chosen].float() + noise).argmax(-1)
            corrupted = ids.clone()
            corrupted[chosen] = sampled
            replaced = (corrupted != ids).float()
        verdict = self.discriminator(
            input_ids=corrupted, attention_mask=attention_mask, labels=replaced
        )
        return guess.loss + 50.0 * verdict.loss


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--length", type=int, default=256)
    parser.add_argument("--hidden", type=int, default=768)
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--vocab", type=int, default=30522)
    parser.add_argument("--steps", type=int, default=4)
    args = parser.parse_args()
    torch.manual_seed(0)
    model = Electra(args).to("cuda").train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-4, weight_decay=0.01)
    scaler = torch.amp.GradScaler("cuda")
    for step in range(args.steps):
        ids = torch.randint(5, args.vocab, (args.batch_size, args.length), device="cuda")
        lengths = torch.randint(
            args.length // 2, args.length + 1, (args.batch_size,), device="cuda"
        )
        mask = (torch.arange(args.length, device="cuda") < lengths[:, None]).long()
        with torch.autocast("cuda", dtype=torch.float16):
            loss = model(ids, mask)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()
        print(f"step {step} loss {loss.item():.3f}")


if __name__ == "__main__":
    main()
