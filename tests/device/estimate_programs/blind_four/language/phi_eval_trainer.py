"""A Phi model with Trainer in fp16: loader workers, fused Adam, evaluation between the steps."""

import argparse
import tempfile

import torch
from torch.utils.data import Dataset
from transformers import PhiConfig, PhiForCausalLM, Trainer, TrainingArguments, set_seed


class Blocks(Dataset):
    def __init__(self, count, length, vocab, seed):
        generator = torch.Generator().manual_seed(seed)
        self.ids = torch.randint(vocab, (count, length), generator=generator)

    def __len__(self):
        return len(self.ids)

    def __getitem__(self, i):
        return {"input_ids": self.ids[i], "labels": self.ids[i]}


def best_token(logits, labels):
    return logits.argmax(dim=-1)


def accuracy(predictions):
    guesses, labels = predictions
    return {"accuracy": float((guesses[:, :-1] == labels[:, 1:]).mean())}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=4)
    parser.add_argument("--length", type=int, default=512)
    parser.add_argument("--width", type=int, default=1024)
    parser.add_argument("--layers", type=int, default=10)
    parser.add_argument("--vocab", type=int, default=51200)
    parser.add_argument("--fp32", action="store_true")
    args = parser.parse_args()
    set_seed(3)
    config = PhiConfig(
        vocab_size=args.vocab,
        hidden_size=args.width,
        intermediate_size=4 * args.width,
        num_hidden_layers=args.layers,
        num_attention_heads=args.width // 64,
        max_position_embeddings=args.length,
        resid_pdrop=0.1,
        bos_token_id=1,
        eos_token_id=2,
    )
    model = PhiForCausalLM(config)
    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(
            output_dir=folder,
            per_device_train_batch_size=args.batch_size,
            per_device_eval_batch_size=2 * args.batch_size,
            fp16=not args.fp32,
            max_steps=4,
            eval_strategy="steps",
            eval_steps=2,
            optim="adamw_torch_fused" if torch.cuda.is_available() else "adamw_torch",
            weight_decay=0.1,
            dataloader_num_workers=2,
            logging_steps=2,
            save_strategy="no",
            report_to="none",
            disable_tqdm=True,
        )
        trainer = Trainer(
            model,
            arguments,
            train_dataset=Blocks(8 * args.batch_size, args.length, args.vocab, 4),
            eval_dataset=Blocks(5 * args.batch_size, args.length, args.vocab, 5),
            compute_metrics=accuracy,
            preprocess_logits_for_metrics=best_token,
        )
        trainer.train()
        print(trainer.state.log_history[-1])


if __name__ == "__main__":
    main()
