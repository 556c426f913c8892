"""Transcribes synthetic speech with Whisper: log-mel input, greedy decoding, fp16."""

import argparse

import torch
import torchaudio
from transformers import WhisperConfig, WhisperForConditionalGeneration

RATE = 16000


def tone(seconds, generator):
    """Made-up speech: a few drifting tones and noise."""
    t = torch.arange(int(seconds * RATE)) / RATE
    frequencies = torch.rand(4, generator=generator) * 800 + 100
    wave = torch.sin(2 * torch.pi * frequencies[:, None] * t).sum(0)
    return wave + 0.1 * torch.randn(t.shape, generator=generator)


class LogMel:
    def __init__(self, bins, device):
        self.mel = torchaudio.transforms.MelSpectrogram(
            sample_rate=RATE, n_fft=400, hop_length=160, n_mels=bins
        ).to(device)

    def __call__(self, waves):
        mel = self.mel(waves)[..., :-1]
        log = mel.clamp(min=1e-10).log10()
        log = torch.maximum(log, log.amax(dim=(1, 2), keepdim=True) - 8.0)
        return (log + 4.0) / 4.0


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=8)
    parser.add_argument("--seconds", type=int, default=30)
    parser.add_argument("--new-tokens", type=int, default=24)
    parser.add_argument("--width", type=int, default=768)
    parser.add_argument("--layers", type=int, default=12)
    args = parser.parse_args()
    torch.manual_seed(0)
    generator = torch.Generator().manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    dtype = torch.float16 if device.type == "cuda" else torch.float32
    config = WhisperConfig(
        d_model=args.width,
        encoder_layers=args.layers,
        decoder_layers=args.layers,
        encoder_attention_heads=args.width // 64,
        decoder_attention_heads=args.width // 64,
        encoder_ffn_dim=4 * args.width,
        decoder_ffn_dim=4 * args.width,
        max_source_positions=args.seconds * 50,
        begin_suppress_tokens=None,
    )
    model = WhisperForConditionalGeneration(config).to(device, dtype).eval()
    log_mel = LogMel(config.num_mel_bins, device)
    for number in range(2):
        waves = torch.stack([tone(args.seconds, generator) for _ in range(args.batch_size)])
        features = log_mel(waves.to(device)).to(dtype)
        tokens = torch.full((args.batch_size, 1), config.decoder_start_token_id, device=device)
        cache = None
        with torch.no_grad():
            memory = model.get_encoder()(features)
            step = tokens
            for _ in range(args.new_tokens):
                output = model(
                    encoder_outputs=memory,
                    decoder_input_ids=step,
                    past_key_values=cache,
                    use_cache=True,
                )
                cache = output.past_key_values
                step = output.logits[:, -1].argmax(-1, keepdim=True)
                tokens = torch.cat([tokens, step], dim=1)
        print(f"batch {number}: {tuple(tokens.shape)}, first {tokens[0, :6].tolist()}")


if __name__ == "__main__":
    main()
