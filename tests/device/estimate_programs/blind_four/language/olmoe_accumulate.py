"""A mixture of experts (OLMoE) in pure bf16, with its balancing loss and accumulated gradients."""

import argparse

import torch
from transformers import OlmoeConfig, OlmoeForCausalLM


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=4)
    parser.add_argument("--length", type=int, default=512)
    parser.add_argument("--width", type=int, default=768)
    parser.add_argument("--layers", type=int, default=6)
    parser.add_argument("--experts", type=int, default=16)
    parser.add_argument("--vocab", type=int, default=50304)
    parser.add_argument("--accumulate", type=int, default=2)
    parser.add_argument("--steps", type=int, default=3)
    args = parser.parse_args()
    torch.manual_seed(9)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    config = OlmoeConfig(
        vocab_size=args.vocab,
        hidden_size=args.width,
        intermediate_size=args.width,
        num_hidden_layers=args.layers,
        num_attention_heads=args.width // 64,
        num_experts=args.experts,
        num_experts_per_tok=2,
        router_aux_loss_coef=0.01,
        output_router_logits=True,
        max_position_embeddings=args.length,
        use_cache=False,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=2,
    )
    model = OlmoeForCausalLM(config).to(device=device, dtype=torch.bfloat16)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-4, eps=1e-6)
    generator = torch.Generator(device=device).manual_seed(0)
    for step in range(args.steps):
        total = torch.zeros((), device=device)
        for _ in range(args.accumulate):
            ids = torch.randint(
                0,
                args.vocab,
                (args.batch_size, args.length),
                device=device,
                generator=generator,
            )
            out = model(input_ids=ids, labels=ids)
            (out.loss / args.accumulate).backward()
            total += out.loss.detach()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0, foreach=True)
        optimizer.step()
        optimizer.zero_grad()
        print(f"step {step}: {total.item() / args.accumulate:.3f}")


if __name__ == "__main__":
    main()
