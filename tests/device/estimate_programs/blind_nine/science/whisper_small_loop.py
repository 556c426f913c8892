"""Whisper fine-tuning in a plain loop: bf16 autocast, a frozen first convolution, workers."""

import argparse

import torch
from torch.utils.data import DataLoader, Dataset
from transformers import WhisperConfig, WhisperForConditionalGeneration


class Clips(Dataset):
    def __init__(self, count, frames, longest, vocab):
        self.count, self.frames, self.longest, self.vocab = count, frames, longest, vocab

    def __len__(self):
        return self.count

    def __getitem__(self, i):
        torch.manual_seed(i)
        length = int(torch.randint(self.longest // 2, self.longest + 1, (1,)))
        return torch.randn(80, self.frames), torch.randint(0, self.vocab, (length,))


def collate(rows):
    sound, text = zip(*rows)
    labels = torch.nn.utils.rnn.pad_sequence(text, batch_first=True, padding_value=-100)
    return torch.stack(sound), labels


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=8)
    parser.add_argument("--frames", type=int, default=3000)
    parser.add_argument("--longest", type=int, default=96)
    parser.add_argument("--d-model", type=int, default=512)
    parser.add_argument("--layers", type=int, default=6)
    parser.add_argument("--vocab", type=int, default=51865)
    parser.add_argument("--steps", type=int, default=4)
    args = parser.parse_args()
    torch.manual_seed(0)
    config = WhisperConfig(
        vocab_size=args.vocab,
        d_model=args.d_model,
        encoder_layers=args.layers,
        decoder_layers=args.layers,
        encoder_attention_heads=args.d_model // 64,
        decoder_attention_heads=args.d_model // 64,
        encoder_ffn_dim=4 * args.d_model,
        decoder_ffn_dim=4 * args.d_model,
        max_source_positions=args.frames // 2,
        decoder_start_token_id=1,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=2,
        use_cache=False,
    )
    model = WhisperForConditionalGeneration(config).to("cuda")
    for p in model.model.encoder.conv1.parameters():
        p.requires_grad = False
    trained = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=1e-5)
    clips = Clips(args.batch_size * args.steps, args.frames, args.longest, args.vocab)
    loader = DataLoader(clips, args.batch_size, collate_fn=collate, num_workers=2, pin_memory=True)
    model.train()
    for step, (sound, labels) in enumerate(loader):
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = model(input_features=sound.to("cuda"), labels=labels.to("cuda")).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(trained, 1.0)
        optimizer.step()
        optimizer.zero_grad()
        print(step, loss.item())


if __name__ == "__main__":
    main()
