"""Emotions in speech with Wav2Vec2: a frozen convolutional front end, time masks, clips of
different lengths, bf16 autocast and gradient clipping.
"""

import argparse

import numpy as np
import torch
from torch.nn.utils.rnn import pad_sequence
from transformers import Wav2Vec2Config, Wav2Vec2ForSequenceClassification, get_scheduler

RATE = 16000


def make_batch(rng, size, shortest, longest, classes):
    clips, labels = [], []
    for _ in range(size):
        samples = int(rng.uniform(shortest, longest) * RATE)
        clips.append(torch.from_numpy(rng.standard_normal(samples, dtype=np.float32)))
        labels.append(int(rng.integers(classes)))
    waves = pad_sequence(clips, batch_first=True)
    mask = pad_sequence(
        [torch.ones(len(clip), dtype=torch.long) for clip in clips], batch_first=True
    )
    return waves, mask, torch.tensor(labels)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--shortest", type=float, default=2.0)
    parser.add_argument("--longest", type=float, default=8.0)
    parser.add_argument("--hidden", type=int, default=768)
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--classes", type=int, default=7)
    parser.add_argument("--steps", type=int, default=4)
    args = parser.parse_args()
    torch.manual_seed(0)
    rng = np.random.default_rng(0)
    np.random.seed(0)
    config = Wav2Vec2Config(
        hidden_size=args.hidden,
        num_hidden_layers=args.layers,
        num_attention_heads=args.hidden // 64,
        intermediate_size=4 * args.hidden,
        num_labels=args.classes,
        mask_time_prob=0.05,
        layerdrop=0.0,
    )
    model = Wav2Vec2ForSequenceClassification(config)
    model.freeze_feature_encoder()
    model.cuda().train()
    trained = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=3e-5)
    schedule = get_scheduler("linear", optimizer, 1, args.steps)
    for step in range(args.steps):
        batch = make_batch(rng, args.batch_size, args.shortest, args.longest, args.classes)
        waves, mask, labels = (tensor.cuda() for tensor in batch)
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = model(input_values=waves, attention_mask=mask, labels=labels).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(trained, 1.0)
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
        print(f"step {step} {waves.shape[1] / RATE:.1f} s loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
