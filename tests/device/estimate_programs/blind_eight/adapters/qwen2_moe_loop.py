"""Qwen2-MoE with a shared expert: bf16 autocast, the router's balance loss, accumulation."""

import argparse

import torch
from transformers import Qwen2MoeConfig, Qwen2MoeForCausalLM


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=4)
    parser.add_argument("--length", type=int, default=512)
    parser.add_argument("--hidden", type=int, default=768)
    parser.add_argument("--layers", type=int, default=8)
    parser.add_argument("--experts", type=int, default=16)
    parser.add_argument("--vocab", type=int, default=48000)
    parser.add_argument("--accumulation", type=int, default=2)
    parser.add_argument("--updates", type=int, default=3)
    args = parser.parse_args()
    torch.manual_seed(0)
    device = "cuda"
    config = Qwen2MoeConfig(
        vocab_size=args.vocab,
        hidden_size=args.hidden,
        intermediate_size=args.hidden * 3,
        moe_intermediate_size=args.hidden,
        shared_expert_intermediate_size=args.hidden * 2,
        num_hidden_layers=args.layers,
        num_attention_heads=args.hidden // 64,
        num_key_value_heads=args.hidden // 64,
        num_experts=args.experts,
        num_experts_per_tok=4,
        output_router_logits=True,
        router_aux_loss_coef=0.01,
        use_cache=False,
    )
    model = Qwen2MoeForCausalLM(config).to(device)
    model.train()
    print(f"{sum(p.numel() for p in model.parameters()) / 1e6:.0f} M parameters")
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, weight_decay=0.1)
    for update in range(args.updates):
        for _ in range(args.accumulation):
            ids = torch.randint(0, args.vocab, (args.batch_size, args.length)).to(device)
            with torch.autocast(device_type="cuda", dtype=torch.bfloat16):
                output = model(input_ids=ids, labels=ids)
            (output.loss / args.accumulation).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        print(f"update {update} loss {output.loss.item():.3f} balance {output.aux_loss.item():.3f}")


if __name__ == "__main__":
    main()
