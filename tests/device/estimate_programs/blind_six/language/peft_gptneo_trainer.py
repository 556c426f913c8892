"""LoRA with peft on GPT-Neo through Trainer: bf16, accumulation, checkpointing, merged at the
end.
"""

import argparse
import tempfile

import torch
from peft import LoraConfig, get_peft_model
from transformers import (
    GPTNeoConfig,
    GPTNeoForCausalLM,
    Trainer,
    TrainingArguments,
    default_data_collator,
    set_seed,
)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=4)
    parser.add_argument("--length", type=int, default=1024)
    parser.add_argument("--width", type=int, default=2048)
    parser.add_argument("--layers", type=int, default=16)
    parser.add_argument("--vocab", type=int, default=50257)
    parser.add_argument("--fp32", action="store_true")
    args = parser.parse_args()
    set_seed(4)
    config = GPTNeoConfig(
        vocab_size=args.vocab,
        hidden_size=args.width,
        num_layers=args.layers,
        attention_types=[[["global", "local"], args.layers // 2]],
        num_heads=args.width // 128,
        max_position_embeddings=args.length,
        window_size=256,
        use_cache=False,
    )
    model = GPTNeoForCausalLM(config)
    if not args.fp32:
        model = model.to(torch.bfloat16)
    model.enable_input_require_grads()
    model = get_peft_model(
        model,
        LoraConfig(
            r=16,
            lora_alpha=32,
            lora_dropout=0.1,
            target_modules=["q_proj", "v_proj", "c_fc"],
            bias="none",
            task_type="CAUSAL_LM",
        ),
    )
    model.print_trainable_parameters()
    ids = torch.randint(0, args.vocab, (8 * args.batch_size, args.length))
    trainer = Trainer(
        model=model,
        args=TrainingArguments(
            output_dir=tempfile.mkdtemp(),
            per_device_train_batch_size=args.batch_size,
            gradient_accumulation_steps=2,
            gradient_checkpointing=True,
            gradient_checkpointing_kwargs={"use_reentrant": False},
            bf16=not args.fp32,
            max_steps=3,
            learning_rate=1e-4,
            save_strategy="no",
            logging_steps=1,
            report_to="none",
            disable_tqdm=True,
            label_names=["labels"],
        ),
        train_dataset=[{"input_ids": row, "labels": row} for row in ids],
        data_collator=default_data_collator,
    )
    trainer.train()
    merged = model.merge_and_unload()
    print(sum(p.numel() for p in merged.parameters()))


if __name__ == "__main__":
    main()
