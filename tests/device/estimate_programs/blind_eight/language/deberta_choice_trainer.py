"""Multiple choice (SWAG) with DeBERTa-v2 and Trainer: five answers per question, bf16, accuracy
after every epoch.
"""

import argparse
import random
import tempfile

import numpy as np
import torch
from transformers import (
    DebertaV2Config,
    DebertaV2ForMultipleChoice,
    Trainer,
    TrainingArguments,
    set_seed,
)


def make_questions(count, choices, longest, vocab, seed):
    rng = random.Random(seed)
    questions = []
    for _ in range(count):
        answers = [
            [rng.randrange(5, vocab) for _ in range(rng.randint(longest // 3, longest))]
            for _ in range(choices)
        ]
        questions.append({"answers": answers, "label": rng.randrange(choices)})
    return questions


def collate(questions):
    flat = [answer for question in questions for answer in question["answers"]]
    longest = max(map(len, flat))
    ids = torch.zeros(len(flat), longest, dtype=torch.long)
    for row, answer in zip(ids, flat):
        row[: len(answer)] = torch.tensor(answer)
    shape = (len(questions), -1, longest)
    return {
        "input_ids": ids.view(shape),
        "attention_mask": (ids != 0).long().view(shape),
        "labels": torch.tensor([question["label"] for question in questions]),
    }


def accuracy(prediction):
    return {"accuracy": float(np.mean(prediction.predictions.argmax(-1) == prediction.label_ids))}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=8)
    parser.add_argument("--choices", type=int, default=5)
    parser.add_argument("--longest", type=int, default=160)
    parser.add_argument("--hidden", type=int, default=768)
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--vocab", type=int, default=128100)
    parser.add_argument("--questions", type=int, default=32)
    parser.add_argument("--fp32", action="store_true")
    args = parser.parse_args()
    set_seed(7)

    config = DebertaV2Config(
        vocab_size=args.vocab,
        hidden_size=args.hidden,
        num_hidden_layers=args.layers,
        num_attention_heads=args.hidden // 64,
        intermediate_size=args.hidden * 4,
        max_position_embeddings=512,
        relative_attention=True,
        position_buckets=256,
        norm_rel_ebd="layer_norm",
        share_att_key=True,
        pos_att_type=["p2c", "c2p"],
        type_vocab_size=0,
    )
    with tempfile.TemporaryDirectory() as folder:
        trainer = Trainer(
            model=DebertaV2ForMultipleChoice(config),
            args=TrainingArguments(
                output_dir=folder,
                num_train_epochs=1,
                per_device_train_batch_size=args.batch_size,
                per_device_eval_batch_size=args.batch_size * 2,
                learning_rate=2e-5,
                bf16=not args.fp32,
                eval_strategy="epoch",
                save_strategy="no",
                logging_steps=1,
                remove_unused_columns=False,
                report_to="none",
                disable_tqdm=True,
            ),
            train_dataset=make_questions(args.questions, args.choices, args.longest, args.vocab, 0),
            eval_dataset=make_questions(16, args.choices, args.longest, args.vocab, 1),
            data_collator=collate,
            compute_metrics=accuracy,
        )
        trainer.train()


if __name__ == "__main__":
    main()
