"""GPTQ: every linear layer of a GPT-J is quantised to 4 bits with the Hessian of its inputs."""

import argparse

import torch
import torch.nn as nn
from transformers import GPTJConfig, GPTJForCausalLM


class Inputs:
    def __init__(self, layer):
        self.hessian = torch.zeros(layer.in_features, layer.in_features, device=layer.weight.device)
        self.seen = 0

    def __call__(self, module, args, output):
        x = args[0].flatten(0, -2).float()
        self.seen += len(x)
        self.hessian.addmm_(x.t(), x)


def quantise(weight, hessian, bits, block):
    weight = weight.float().clone()
    dead = hessian.diag() == 0
    hessian[dead, dead] = 1
    damp = 0.01 * hessian.diag().mean()
    hessian.diagonal().add_(damp)
    inverse = torch.cholesky_inverse(torch.linalg.cholesky(hessian))
    upper = torch.linalg.cholesky(inverse, upper=True)
    top = 2**bits - 1
    low, high = weight.amin(1, keepdim=True), weight.amax(1, keepdim=True)
    scale = (high - low).clamp(min=1e-6) / top
    zero = (-low / scale).round()
    out = torch.zeros_like(weight)
    for start in range(0, weight.size(1), block):
        end = min(start + block, weight.size(1))
        part, errors = weight[:, start:end].clone(), torch.zeros_like(weight[:, start:end])
        local = upper[start:end, start:end]
        for i in range(end - start):
            column = part[:, i : i + 1]
            rounded = ((column / scale).round() + zero).clamp(0, top).sub_(zero).mul_(scale)
            out[:, start + i] = rounded[:, 0]
            error = (column - rounded) / local[i, i]
            part[:, i:] -= error @ local[i : i + 1, i:]
            errors[:, i] = error[:, 0]
        weight[:, end:] -= errors @ upper[start:end, end:]
    return out


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--samples", type=int, default=8)
    parser.add_argument("--length", type=int, default=1024)
    parser.add_argument("--width", type=int, default=768)
    parser.add_argument("--layers", type=int, default=1)
    parser.add_argument("--vocab", type=int, default=50400)
    parser.add_argument("--block", type=int, default=128)
    args = parser.parse_args()
    torch.manual_seed(5)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    config = GPTJConfig(
        vocab_size=args.vocab,
        n_embd=args.width,
        n_layer=args.layers,
        n_head=args.width // 128,
        n_positions=args.length,
        rotary_dim=64,
        use_cache=False,
        bos_token_id=0,
        eos_token_id=0,
    )
    half = torch.float16 if device.type == "cuda" else torch.bfloat16
    model = GPTJForCausalLM(config).to(half).to(device).eval()
    ids = torch.randint(args.vocab, (args.samples, args.length), device=device)
    with torch.no_grad():
        before = model(input_ids=ids[:1]).logits.float()
        for number, block in enumerate(model.transformer.h):
            layers = {n: m for n, m in block.named_modules() if isinstance(m, nn.Linear)}
            readers = {name: Inputs(layer) for name, layer in layers.items()}
            hooks = [layers[n].register_forward_hook(r) for n, r in readers.items()]
            for row in ids.split(1):
                model(input_ids=row)
            for hook in hooks:
                hook.remove()
            for name, layer in layers.items():
                new = quantise(layer.weight, readers[name].hessian, 4, args.block)
                layer.weight.copy_(new)
                readers[name].hessian = None
            print(f"block {number}: {len(layers)} layers")
        after = model(input_ids=ids[:1]).logits.float()
    print("changed", (after - before).abs().mean().isfinite().item())


if __name__ == "__main__":
    main()
