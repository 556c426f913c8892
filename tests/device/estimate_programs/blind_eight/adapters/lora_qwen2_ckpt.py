"""LoRA on every linear layer of a frozen Qwen2 in bfloat16 with a plain loop; the adapters are
float32, layers are checkpointed, and the adapters are merged into the weights at the end.
"""

import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F
from transformers import AutoModelForCausalLM, Qwen2Config


class Adapter(nn.Linear):
    """A frozen linear layer with a low-rank update."""

    @classmethod
    def around(cls, linear, rank, alpha):
        linear.__class__ = cls
        linear.weight.requires_grad_(False)
        if linear.bias is not None:
            linear.bias.requires_grad_(False)
        device = linear.weight.device
        linear.lora_a = nn.Parameter(torch.randn(rank, linear.in_features, device=device) * 0.01)
        linear.lora_b = nn.Parameter(torch.zeros(linear.out_features, rank, device=device))
        linear.factor = alpha / rank

    def forward(self, x):
        low = F.linear(F.linear(x.float(), self.lora_a), self.lora_b)
        return F.linear(x, self.weight, self.bias) + (low * self.factor).to(x.dtype)

    @torch.no_grad()
    def merge(self):
        self.weight += (self.lora_b @ self.lora_a * self.factor).to(self.weight.dtype)
        del self.lora_a, self.lora_b
        self.__class__ = nn.Linear


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=4)
    parser.add_argument("--longest", type=int, default=1024)
    parser.add_argument("--hidden", type=int, default=1536)
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--vocab", type=int, default=100000)
    parser.add_argument("--rank", type=int, default=32)
    parser.add_argument("--steps", type=int, default=4)
    args = parser.parse_args()
    torch.manual_seed(0)
    device = torch.device("cuda")
    config = Qwen2Config(
        vocab_size=args.vocab,
        hidden_size=args.hidden,
        intermediate_size=args.hidden * 5,
        num_hidden_layers=args.layers,
        num_attention_heads=args.hidden // 128,
        num_key_value_heads=2,
        tie_word_embeddings=True,
    )
    model = AutoModelForCausalLM.from_config(config).to(device, torch.bfloat16)
    model.requires_grad_(False)
    adapters = [m for m in model.model.layers.modules() if isinstance(m, nn.Linear)]
    for linear in adapters:
        Adapter.around(linear, args.rank, args.rank)
    model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    model.train()
    trained = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=1e-4)
    for step in range(args.steps):
        length = args.longest - 128 * (step % 3) if args.longest > 512 else args.longest
        ids = torch.randint(0, args.vocab, (args.batch_size, length), device=device)
        loss = model(input_ids=ids, labels=ids, use_cache=False).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(trained, 0.3)
        optimizer.step()
        optimizer.zero_grad()
        print(f"step {step} length {length} loss {loss.item():.3f}")
    del optimizer, trained
    for linear in adapters:
        linear.merge()
    model.eval()
    with torch.no_grad():
        ids = torch.randint(0, args.vocab, (1, 128), device=device)
        print("merged", model(input_ids=ids, labels=ids).loss.item())


if __name__ == "__main__":
    main()
