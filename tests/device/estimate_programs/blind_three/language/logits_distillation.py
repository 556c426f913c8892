"""A GPT-2 student learns a Llama teacher's sharpened logits, in chunks of the vocabulary matrix."""

import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint
from transformers import GPT2Config, GPT2Model, LlamaConfig, LlamaForCausalLM


class Student(nn.Module):
    def __init__(self, vocab, width, layers, length):
        super().__init__()
        config = GPT2Config(
            vocab_size=vocab,
            n_positions=length,
            n_embd=width,
            n_layer=layers,
            n_head=width // 64,
        )
        self.body = GPT2Model(config)
        self.head = nn.Linear(width, vocab, bias=False)

    def forward(self, ids):
        return self.body(input_ids=ids, use_cache=False).last_hidden_state


def chunk_loss(head, hidden, teacher_logits, labels, temperature):
    logits = head(hidden).float()
    hard = F.cross_entropy(logits, labels, reduction="sum")
    soft = F.kl_div(
        F.log_softmax(logits / temperature, -1),
        F.log_softmax(teacher_logits.float() / temperature, -1),
        log_target=True,
        reduction="sum",
    )
    return hard, soft * temperature**2


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=8)
    parser.add_argument("--length", type=int, default=512)
    parser.add_argument("--chunk", type=int, default=1024)
    parser.add_argument("--vocab", type=int, default=50257)
    parser.add_argument("--teacher-width", type=int, default=1536)
    parser.add_argument("--teacher-layers", type=int, default=8)
    parser.add_argument("--width", type=int, default=512)
    parser.add_argument("--layers", type=int, default=6)
    parser.add_argument("--temperature", type=float, default=2.0)
    parser.add_argument("--steps", type=int, default=3)
    args = parser.parse_args()
    torch.manual_seed(2)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")

    teacher_config = LlamaConfig(
        vocab_size=args.vocab,
        hidden_size=args.teacher_width,
        intermediate_size=2 * args.teacher_width,
        num_hidden_layers=args.teacher_layers,
        num_attention_heads=args.teacher_width // 128,
        num_key_value_heads=args.teacher_width // 256,
    )
    with device:
        teacher = LlamaForCausalLM(teacher_config).half().eval()
    student = Student(args.vocab, args.width, args.layers, args.length).to(device)
    optimizer = torch.optim.NAdam(student.parameters(), lr=2e-4)

    for step in range(args.steps):
        ids = torch.randint(0, args.vocab, (args.batch_size, args.length + 1), device=device)
        inputs, labels = ids[:, :-1], ids[:, 1:].reshape(-1)
        with torch.inference_mode():
            teacher_logits = teacher(inputs, use_cache=False).logits.flatten(0, 1)
        teacher_logits = teacher_logits.clone()
        optimizer.zero_grad()
        with torch.autocast(device.type, dtype=torch.bfloat16):
            hidden = student(inputs).flatten(0, 1)
            total_hard = total_soft = 0.0
            for start in range(0, len(hidden), args.chunk):
                part = slice(start, start + args.chunk)
                hard, soft = checkpoint(
                    chunk_loss,
                    student.head,
                    hidden[part],
                    teacher_logits[part],
                    labels[part],
                    args.temperature,
                    use_reentrant=False,
                )
                total_hard, total_soft = total_hard + hard, total_soft + soft
            loss = (0.3 * total_hard + 0.7 * total_soft) / len(hidden)
        loss.backward()
        optimizer.step()
        print(f"step {step}: {loss.item():.3f} (hard {total_hard.item() / len(hidden):.3f})")


if __name__ == "__main__":
    main()
