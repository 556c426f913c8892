"""DoRA by peft on a bf16 Granite model with gradient checkpointing, then merged for generation."""

import argparse

import torch
from peft import LoraConfig, get_peft_model
from transformers import GraniteConfig, GraniteForCausalLM


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=4)
    parser.add_argument("--length", type=int, default=1024)
    parser.add_argument("--width", type=int, default=2048)
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--vocab", type=int, default=49152)
    parser.add_argument("--rank", type=int, default=16)
    parser.add_argument("--new-tokens", type=int, default=24)
    parser.add_argument("--steps", type=int, default=4)
    args = parser.parse_args()
    torch.manual_seed(8)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    config = GraniteConfig(
        vocab_size=args.vocab,
        hidden_size=args.width,
        intermediate_size=args.width * 2,
        num_hidden_layers=args.layers,
        num_attention_heads=args.width // 64,
        num_key_value_heads=args.width // 256,
        logits_scaling=8.0,
        residual_multiplier=0.22,
        bos_token_id=0,
        eos_token_id=0,
        pad_token_id=0,
    )
    model = GraniteForCausalLM(config).to(torch.bfloat16)
    model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    model.enable_input_require_grads()
    adapter = LoraConfig(
        r=args.rank,
        lora_alpha=2 * args.rank,
        lora_dropout=0.05,
        target_modules=["q_proj", "v_proj", "up_proj", "down_proj"],
        use_dora=True,
        task_type="CAUSAL_LM",
    )
    model = get_peft_model(model, adapter).to(device)
    model.print_trainable_parameters()
    trained = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=1e-4)
    model.train()
    for step in range(args.steps):
        ids = torch.randint(1, args.vocab, (args.batch_size, args.length), device=device)
        labels = ids.clone()
        labels[:, : args.length // 4] = -100
        loss = model(input_ids=ids, labels=labels, use_cache=False).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(trained, 0.3)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        print(f"step {step}: {loss.item():.3f}")

    merged = model.merge_and_unload().eval()
    merged.gradient_checkpointing_disable()
    prompt = torch.randint(1, args.vocab, (args.batch_size, args.length // 2), device=device)
    with torch.inference_mode():
        out = merged.generate(
            prompt,
            attention_mask=torch.ones_like(prompt),
            min_new_tokens=args.new_tokens,
            max_new_tokens=args.new_tokens,
            do_sample=False,
        )
    print("generated", tuple(out.shape))


if __name__ == "__main__":
    main()
