"""T5 answers questions: plain fp32 loop with Adafactor, answers generated after training."""

import argparse

import torch
from torch.utils.data import DataLoader, TensorDataset
from transformers import Adafactor, T5Config, T5ForConditionalGeneration


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=8)
    parser.add_argument("--question", type=int, default=384)
    parser.add_argument("--answer", type=int, default=32)
    parser.add_argument("--d-model", type=int, default=512)
    parser.add_argument("--layers", type=int, default=6)
    parser.add_argument("--vocab", type=int, default=32128)
    parser.add_argument("--steps", type=int, default=4)
    args = parser.parse_args()
    torch.manual_seed(0)
    config = T5Config(
        vocab_size=args.vocab,
        d_model=args.d_model,
        d_ff=4 * args.d_model,
        num_layers=args.layers,
        num_heads=args.d_model // 64,
        decoder_start_token_id=0,
    )
    model = T5ForConditionalGeneration(config).cuda()
    optimizer = Adafactor(
        model.parameters(), lr=1e-3, scale_parameter=False, relative_step=False, warmup_init=False
    )
    count = args.batch_size * args.steps
    data = TensorDataset(
        torch.randint(2, args.vocab, (count, args.question)),
        torch.randint(2, args.vocab, (count, args.answer)),
    )
    model.train()
    for step, (questions, answers) in enumerate(DataLoader(data, args.batch_size, shuffle=True)):
        questions, answers = questions.cuda(), answers.cuda()
        out = model(input_ids=questions, attention_mask=torch.ones_like(questions), labels=answers)
        out.loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        print(f"step {step}: loss = {out.loss.item():.4f}")
    model.eval()
    with torch.no_grad():
        tokens = model.generate(
            questions, max_new_tokens=args.answer // 2, do_sample=False, num_beams=1
        )
    print(tokens.shape)


if __name__ == "__main__":
    main()
