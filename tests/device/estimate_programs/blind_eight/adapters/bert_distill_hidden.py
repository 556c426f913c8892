"""TinyBERT-like distillation: a four-layer student learns hidden states, attention maps and logits
of a twelve-layer teacher.
"""

import argparse

import torch
import torch.nn.functional as F
from transformers import BertConfig, BertForSequenceClassification


def bert(hidden, layers, heads, vocab, labels):
    return BertForSequenceClassification(
        BertConfig(
            vocab_size=vocab,
            hidden_size=hidden,
            num_hidden_layers=layers,
            num_attention_heads=heads,
            intermediate_size=4 * hidden,
            num_labels=labels,
            attn_implementation="eager",
        )
    )


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--length", type=int, default=256)
    parser.add_argument("--hidden", type=int, default=312)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--teacher-hidden", type=int, default=768)
    parser.add_argument("--teacher-layers", type=int, default=12)
    parser.add_argument("--vocab", type=int, default=30522)
    parser.add_argument("--steps", type=int, default=4)
    args = parser.parse_args()
    torch.manual_seed(0)
    device = torch.device("cuda")
    heads = 12
    teacher = bert(args.teacher_hidden, args.teacher_layers, heads, args.vocab, 3)
    teacher = teacher.to(device).eval()
    student = bert(args.hidden, args.layers, heads, args.vocab, 3).to(device).train()
    project = torch.nn.Linear(args.hidden, args.teacher_hidden, bias=False).to(device)
    every = args.teacher_layers // args.layers
    parameters = [*student.parameters(), *project.parameters()]
    optimizer = torch.optim.AdamW(parameters, lr=5e-5)
    for step in range(args.steps):
        ids = torch.randint(5, args.vocab, (args.batch_size, args.length), device=device)
        lengths = torch.randint(
            args.length // 2, args.length + 1, (args.batch_size, 1), device=device
        )
        mask = (torch.arange(args.length, device=device) < lengths).long()
        inputs = dict(input_ids=ids, attention_mask=mask, output_hidden_states=True)
        with torch.no_grad():
            taught = teacher(**inputs, output_attentions=True)
        learned = student(**inputs, output_attentions=True)
        loss = F.mse_loss(project(learned.hidden_states[0]), taught.hidden_states[0])
        for i in range(args.layers):
            j = (i + 1) * every
            loss = loss + F.mse_loss(project(learned.hidden_states[i + 1]), taught.hidden_states[j])
            loss = loss + F.mse_loss(learned.attentions[i], taught.attentions[j - 1])
        soft = F.kl_div(
            F.log_softmax(learned.logits / 2, -1),
            F.softmax(taught.logits / 2, -1),
            reduction="batchmean",
        )
        loss = loss + 4 * soft
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(parameters, 1.0)
        optimizer.step()
        print(f"step {step} loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
