"""Direct preference optimisation of a bf16 Qwen2 against a frozen copy of itself."""

import argparse
import copy

import torch
import torch.nn.functional as F
from transformers import AutoModelForCausalLM, Qwen2Config


def log_probs(model, ids, mask):
    logits = model(input_ids=ids, attention_mask=mask, use_cache=False).logits[:, :-1]
    labels = ids[:, 1:]
    chosen = torch.gather(logits.log_softmax(-1), 2, labels.unsqueeze(2)).squeeze(2)
    return (chosen * mask[:, 1:]).sum(-1)


def make_batch(args):
    ids = torch.randint(1, args.vocab, (2 * args.pairs, args.length))
    lengths = torch.randint(args.length // 2, args.length + 1, (2 * args.pairs, 1))
    mask = (torch.arange(args.length) < lengths).long()
    return (ids * mask).to("cuda"), mask.to("cuda")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--pairs", type=int, default=2)
    parser.add_argument("--length", type=int, default=512)
    parser.add_argument("--hidden", type=int, default=896)
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--vocab", type=int, default=151936)
    parser.add_argument("--beta", type=float, default=0.1)
    parser.add_argument("--steps", type=int, default=4)
    args = parser.parse_args()
    torch.manual_seed(0)
    config = Qwen2Config(
        vocab_size=args.vocab,
        hidden_size=args.hidden,
        intermediate_size=5 * args.hidden,
        num_hidden_layers=args.layers,
        num_attention_heads=args.hidden // 64,
        num_key_value_heads=2,
        tie_word_embeddings=True,
    )
    policy = AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16).to("cuda")
    reference = copy.deepcopy(policy).eval().requires_grad_(False)
    optimizer = torch.optim.RMSprop(policy.parameters(), lr=5e-7)
    policy.train()
    for step in range(args.steps):
        ids, mask = make_batch(args)
        with torch.no_grad():
            ref_chosen, ref_rejected = log_probs(reference, ids, mask).chunk(2)
        chosen, rejected = log_probs(policy, ids, mask).chunk(2)
        margin = (chosen - ref_chosen) - (rejected - ref_rejected)
        loss = -F.logsigmoid(args.beta * margin).mean()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(policy.parameters(), 10.0)
        optimizer.step()
        optimizer.zero_grad()
        print(f"{step}: loss {loss.item():.4f}, margin {margin.mean().item():.4f}")


if __name__ == "__main__":
    main()
