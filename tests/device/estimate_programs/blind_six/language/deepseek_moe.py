"""A small DeepSeek-V3: latent attention and routed experts, bf16, plain loop with accumulation."""

import argparse

import torch
from transformers import DeepseekV3Config, DeepseekV3ForCausalLM


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=4)
    parser.add_argument("--length", type=int, default=512)
    parser.add_argument("--width", type=int, default=768)
    parser.add_argument("--layers", type=int, default=5)
    parser.add_argument("--experts", type=int, default=16)
    parser.add_argument("--vocab", type=int, default=32000)
    args = parser.parse_args()
    torch.manual_seed(0)
    heads = args.width // 64
    config = DeepseekV3Config(
        vocab_size=args.vocab,
        hidden_size=args.width,
        intermediate_size=3 * args.width,
        moe_intermediate_size=args.width // 2,
        num_hidden_layers=args.layers,
        num_attention_heads=heads,
        num_key_value_heads=heads,
        n_shared_experts=1,
        n_routed_experts=args.experts,
        num_experts_per_tok=4,
        n_group=4,
        topk_group=2,
        first_k_dense_replace=1,
        kv_lora_rank=128,
        q_lora_rank=256,
        qk_rope_head_dim=32,
        qk_nope_head_dim=64,
        v_head_dim=64,
        max_position_embeddings=args.length,
        use_cache=False,
    )
    model = DeepseekV3ForCausalLM(config).to("cuda", torch.bfloat16)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, fused=True)
    for step in range(6):
        ids = torch.randint(3, args.vocab, (args.batch_size, args.length), device="cuda")
        loss = model(input_ids=ids, labels=ids).loss / 2
        loss.backward()
        if step % 2 == 1:
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
        print(step, 2 * loss.item())


if __name__ == "__main__":
    main()
