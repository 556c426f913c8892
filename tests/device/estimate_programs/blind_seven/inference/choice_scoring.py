"""Multiple choice by likelihood: every answer is scored after its question with a Persimmon
decoder, in batches that hold about the same number of tokens.
"""

import argparse
import random

import torch
import torch.nn.functional as F
from transformers import PersimmonConfig, PersimmonForCausalLM


def make_questions(count, longest, vocab, seed):
    rng = random.Random(seed)
    requests, gold = [], []
    for question in range(count):
        context = [rng.randrange(3, vocab) for _ in range(rng.randint(longest // 4, longest))]
        for choice in range(4):
            answer = [rng.randrange(3, vocab) for _ in range(rng.randint(2, longest // 8))]
            requests.append({"question": question, "choice": choice, "ids": context + answer})
            requests[-1]["answer"] = len(answer)
        gold.append(rng.randrange(4))
    return requests, gold


def batched(requests, batch_tokens):
    """Longest first, so that a batch that is too large fails at the start."""
    requests = sorted(requests, key=lambda request: -len(request["ids"]))
    while requests:
        size = max(batch_tokens // len(requests[0]["ids"]), 1)
        yield requests[:size]
        requests = requests[size:]


@torch.no_grad()
def score(model, batch, device):
    width = max(len(request["ids"]) for request in batch)
    ids = torch.zeros(len(batch), width, dtype=torch.long)
    mask = torch.zeros_like(ids)
    for row, request in enumerate(batch):
        ids[row, : len(request["ids"])] = torch.tensor(request["ids"])
        mask[row, : len(request["ids"])] = 1
    ids, mask = ids.to(device), mask.to(device)
    logits = model(input_ids=ids, attention_mask=mask, use_cache=False).logits
    results = []
    for row, request in enumerate(batch):
        end, n = len(request["ids"]), request["answer"]
        logprobs = F.log_softmax(logits[row, end - n - 1 : end - 1].float(), dim=-1)
        picked = logprobs.gather(-1, ids[row, end - n : end].unsqueeze(-1))
        results.append((picked.sum().item(), picked.mean().item()))
    return results


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--questions", type=int, default=48)
    parser.add_argument("--longest", type=int, default=768)
    parser.add_argument("--batch-tokens", type=int, default=16384)
    parser.add_argument("--hidden", type=int, default=2048)
    parser.add_argument("--layers", type=int, default=16)
    parser.add_argument("--vocab", type=int, default=72000)
    args = parser.parse_args()

    torch.manual_seed(0)
    config = PersimmonConfig(
        vocab_size=args.vocab,
        hidden_size=args.hidden,
        intermediate_size=args.hidden * 4,
        num_hidden_layers=args.layers,
        num_attention_heads=args.hidden // 64,
        max_position_embeddings=2048,
    )
    with torch.device(args.device):
        model = PersimmonForCausalLM(config)
    model = model.to(torch.bfloat16).eval()

    requests, gold = make_questions(args.questions, args.longest, args.vocab, seed=0)
    sums = torch.full((args.questions, 4), float("-inf"))
    means = sums.clone()
    for number, batch in enumerate(batched(requests, args.batch_tokens)):
        for request, (total, mean) in zip(batch, score(model, batch, args.device), strict=True):
            sums[request["question"], request["choice"]] = total
            means[request["question"], request["choice"]] = mean
        print(f"batch {number}: {len(batch)} answers of up to {len(batch[0]['ids'])} tokens")
    truth = torch.tensor(gold)
    accuracy = (sums.argmax(1) == truth).float().mean().item()
    normalised = (means.argmax(1) == truth).float().mean().item()
    print(f"accuracy {accuracy:.3f}, by mean {normalised:.3f}, loss {-means.mean().item():.3f}")


if __name__ == "__main__":
    main()
