"""Serves a Llama whose linears are packed to four bits by hand: static cache, then beams."""

import argparse
import time

import torch
import torch.nn as nn
import torch.nn.functional as F
from transformers import LlamaConfig, LlamaForCausalLM


class Int4Linear(nn.Module):
    """Two weights in each byte, a scale and a zero for each group; unpacked for every call."""

    def __init__(self, linear, group):
        super().__init__()
        out_features, in_features = linear.weight.shape
        self.group, self.shape = group, (out_features, in_features)
        w = linear.weight.data.float().view(out_features, -1, group)
        low, high = w.amin(-1, keepdim=True), w.amax(-1, keepdim=True)
        scale = (high - low).clamp(min=1e-5) / 15
        q = torch.clamp(torch.round((w - low) / scale), 0, 15).to(torch.uint8)
        q = q.view(out_features, in_features)
        self.register_buffer("packed", q[:, ::2] | (q[:, 1::2] << 4))
        self.register_buffer("scale", scale.to(torch.float16))
        self.register_buffer("zero", low.to(torch.float16))
        self.bias = linear.bias

    def weight(self):
        q = torch.stack([self.packed & 15, self.packed >> 4], dim=-1)
        q = q.view(self.shape[0], -1, self.group).to(self.scale.dtype)
        return (q * self.scale + self.zero).view(self.shape)

    def forward(self, x):
        return F.linear(x, self.weight().to(x.dtype), self.bias)


def quantize(module, group, skip=("lm_head",)):
    for name, child in module.named_children():
        if isinstance(child, nn.Linear) and name not in skip:
            setattr(module, name, Int4Linear(child, group))
        else:
            quantize(child, group, skip)


def size_of(model):
    tensors = list(model.parameters()) + list(model.buffers())
    return sum(t.numel() * t.element_size() for t in tensors) / 2**20


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=8)
    parser.add_argument("--prompt", type=int, default=512)
    parser.add_argument("--new-tokens", type=int, default=32)
    parser.add_argument("--beams", type=int, default=4)
    parser.add_argument("--hidden", type=int, default=2048)
    parser.add_argument("--layers", type=int, default=16)
    parser.add_argument("--vocab", type=int, default=32000)
    parser.add_argument("--group", type=int, default=128)
    args = parser.parse_args()
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    config = LlamaConfig(
        vocab_size=args.vocab,
        hidden_size=args.hidden,
        intermediate_size=args.hidden * 11 // 4,
        num_hidden_layers=args.layers,
        num_attention_heads=args.hidden // 128,
        num_key_value_heads=args.hidden // 256,
        max_position_embeddings=4096,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=None,
    )
    torch.set_default_dtype(torch.float16)
    with device:
        model = LlamaForCausalLM(config).eval()
    torch.set_default_dtype(torch.float32)
    print(f"fp16: {size_of(model):.0f} MiB")
    with torch.no_grad():
        quantize(model, args.group)
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
    print(f"int4: {size_of(model):.0f} MiB")

    prompt = torch.randint(3, args.vocab, (args.batch_size, args.prompt), device=device)
    mask = torch.ones_like(prompt)
    mask[0, : args.prompt // 2] = 0
    settings = dict(max_new_tokens=args.new_tokens, attention_mask=mask)
    # The compiled decoding step is for another day.
    settings["disable_compile"] = True
    for name, more in {
        "greedy, static cache": dict(do_sample=False, cache_implementation="static"),
        "sampling": dict(do_sample=True, top_k=50, temperature=0.8),
        "beams": dict(do_sample=False, num_beams=args.beams, length_penalty=0.8),
    }.items():
        start = time.time()
        with torch.inference_mode():
            out = model.generate(prompt, **settings, **more)
        seconds = time.time() - start
        new = out.size(1) - prompt.size(1)
        print(f"{name}: {new} tokens, {args.batch_size * new / seconds:.1f} tokens/s")


if __name__ == "__main__":
    main()
