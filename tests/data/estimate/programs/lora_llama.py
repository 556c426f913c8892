"""LoRA fine-tuning of a Llama with peft: bf16 base, fp32 adapters, accumulation, clipping."""

import argparse
import tempfile

import torch
from peft import LoraConfig, get_peft_model
from transformers import LlamaConfig, LlamaForCausalLM, get_cosine_schedule_with_warmup


def build(args):
    config = LlamaConfig(
        vocab_size=args.vocab,
        hidden_size=args.width,
        intermediate_size=args.width * 11 // 4,
        num_hidden_layers=args.layers,
        num_attention_heads=args.width // 128 or 1,
        max_position_embeddings=args.length,
    )
    model = LlamaForCausalLM(config).to(torch.bfloat16)
    model.config.use_cache = False
    lora = LoraConfig(
        r=args.rank,
        lora_alpha=2 * args.rank,
        lora_dropout=0.05,
        target_modules=["q_proj", "k_proj", "v_proj", "o_proj"],
        task_type="CAUSAL_LM",
    )
    model = get_peft_model(model, lora)
    model.print_trainable_parameters()
    return model


def instructions(args):
    """Prompts whose tokens are not trained on, then answers."""
    ids = torch.randint(0, args.vocab, (args.batch_size, args.length))
    labels = ids.clone()
    labels[:, : args.length // 3] = -100
    return ids, labels


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=2)
    parser.add_argument("--length", type=int, default=1024)
    parser.add_argument("--accumulation", type=int, default=2)
    parser.add_argument("--width", type=int, default=2048)
    parser.add_argument("--layers", type=int, default=10)
    parser.add_argument("--vocab", type=int, default=32000)
    parser.add_argument("--rank", type=int, default=16)
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()

    torch.manual_seed(args.seed)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = build(args).to(device)
    trainable = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(trainable, lr=2e-4, weight_decay=0.0)
    scheduler = get_cosine_schedule_with_warmup(optimizer, 1, args.steps)
    model.train()
    for step in range(args.steps):
        total = 0.0
        for _ in range(args.accumulation):
            ids, labels = instructions(args)
            loss = model(input_ids=ids.to(device), labels=labels.to(device)).loss
            (loss / args.accumulation).backward()
            total += loss.item()
        norm = torch.nn.utils.clip_grad_norm_(trainable, 0.3)
        optimizer.step()
        scheduler.step()
        optimizer.zero_grad()
        print(f"step {step} loss {total / args.accumulation:.4f} norm {norm:.3f}")
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)


if __name__ == "__main__":
    main()
