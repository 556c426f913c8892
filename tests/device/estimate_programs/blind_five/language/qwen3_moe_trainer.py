"""A Qwen3 mixture of experts with the HF Trainer: bf16 amp, router loss, fused AdamW."""

import argparse
import tempfile

import torch
from torch.utils.data import TensorDataset
from transformers import (
    Qwen3MoeConfig,
    Qwen3MoeForCausalLM,
    Trainer,
    TrainerCallback,
    TrainingArguments,
    set_seed,
)


class Memory(TrainerCallback):
    def on_step_end(self, args, state, control, **kwargs):
        if torch.cuda.is_available():
            print(state.global_step, torch.cuda.max_memory_allocated() >> 20, "MiB")


def collate(rows):
    ids = torch.stack([row[0] for row in rows])
    return {"input_ids": ids, "labels": ids}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=4)
    parser.add_argument("--length", type=int, default=512)
    parser.add_argument("--width", type=int, default=768)
    parser.add_argument("--layers", type=int, default=6)
    parser.add_argument("--experts", type=int, default=16)
    parser.add_argument("--vocab", type=int, default=32000)
    parser.add_argument("--cpu", action="store_true")
    args = parser.parse_args()
    set_seed(13)
    config = Qwen3MoeConfig(
        vocab_size=args.vocab,
        hidden_size=args.width,
        intermediate_size=2 * args.width,
        moe_intermediate_size=args.width // 2,
        num_hidden_layers=args.layers,
        num_attention_heads=args.width // 64,
        num_key_value_heads=2,
        head_dim=64,
        num_experts=args.experts,
        num_experts_per_tok=4,
        norm_topk_prob=True,
        output_router_logits=True,
        router_aux_loss_coef=0.01,
        use_cache=False,
    )
    model = Qwen3MoeForCausalLM(config)
    data = TensorDataset(torch.randint(args.vocab, (6 * args.batch_size, args.length)))
    with tempfile.TemporaryDirectory() as folder:
        Trainer(
            model,
            TrainingArguments(
                folder,
                per_device_train_batch_size=args.batch_size,
                max_steps=3,
                bf16=not args.cpu,
                optim="adamw_torch" if args.cpu else "adamw_torch_fused",
                learning_rate=1e-4,
                logging_steps=1,
                save_strategy="no",
                report_to="none",
                remove_unused_columns=False,
                disable_tqdm=True,
            ),
            train_dataset=data,
            data_collator=collate,
            callbacks=[Memory()],
        ).train()


if __name__ == "__main__":
    main()
