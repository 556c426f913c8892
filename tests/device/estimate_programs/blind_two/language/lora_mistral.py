"""LoRA on every linear of a Mistral, with gradient checkpointing; merged at the end for scoring."""

import argparse
import tempfile

import torch
from peft import LoraConfig, get_peft_model
from transformers import MistralConfig, MistralForCausalLM


def get_args():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=4)
    parser.add_argument("--seq-len", type=int, default=1024)
    parser.add_argument("--hidden", type=int, default=1536)
    parser.add_argument("--layers", type=int, default=8)
    parser.add_argument("--vocab", type=int, default=32768)
    parser.add_argument("--rank", type=int, default=32)
    parser.add_argument("--steps", type=int, default=4)
    return parser.parse_args()


def main():
    args = get_args()
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    config = MistralConfig(
        vocab_size=args.vocab,
        hidden_size=args.hidden,
        intermediate_size=7 * args.hidden // 2,
        num_hidden_layers=args.layers,
        num_attention_heads=args.hidden // 128,
        num_key_value_heads=max(1, args.hidden // 512),
        sliding_window=None,
        max_position_embeddings=4096,
        use_cache=False,
        attention_dropout=0.0,
    )
    model = MistralForCausalLM(config).to(torch.bfloat16)
    model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": True})
    model.enable_input_require_grads()
    lora = LoraConfig(
        r=args.rank,
        lora_alpha=2 * args.rank,
        lora_dropout=0.05,
        target_modules="all-linear",
        bias="none",
        task_type="CAUSAL_LM",
    )
    model = get_peft_model(model, lora)
    model.print_trainable_parameters()
    model.to(device)

    trainable = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(trainable, lr=2e-4, weight_decay=0.0)
    scheduler = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, max_lr=2e-4, total_steps=args.steps + 1, pct_start=0.3
    )

    model.train()
    for step in range(args.steps):
        ids = torch.randint(0, args.vocab, (args.batch_size, args.seq_len))
        labels = ids.clone()
        labels[:, : args.seq_len // 4] = -100
        ids, labels = ids.to(device), labels.to(device)
        with torch.autocast(device.type, dtype=torch.bfloat16):
            loss = model(input_ids=ids, labels=labels).loss
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(trainable, 0.3)
        optimizer.step()
        scheduler.step()
        optimizer.zero_grad()
        print(f"step {step + 1}/{args.steps}: loss {loss.item():.4f}, grad norm {norm:.3f}")

    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)

    merged = model.merge_and_unload()
    merged.eval()
    merged.gradient_checkpointing_disable()
    with torch.inference_mode():
        ids = torch.randint(0, args.vocab, (2, args.seq_len), device=device)
        logits = merged(input_ids=ids).logits.float()
        logprobs = logits[:, :-1].log_softmax(-1).gather(-1, ids[:, 1:, None])
    print("perplexity after merging", logprobs.mean().neg().exp().item())


if __name__ == "__main__":
    main()
