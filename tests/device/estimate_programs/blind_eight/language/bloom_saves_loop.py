"""BLOOM in bf16 autocast with SGD and momentum; every two steps the model is evaluated, saved to
a file and loaded again, as after a preemption.
"""

import argparse
import tempfile
from pathlib import Path

import torch
from transformers import BloomConfig, BloomForCausalLM


def save(path, model, optimizer, step):
    state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": step}
    torch.save(state, path)


def load(path, model, optimizer, device):
    state = torch.load(path, map_location=device)
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    return state["step"]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=4)
    parser.add_argument("--length", type=int, default=512)
    parser.add_argument("--hidden", type=int, default=768)
    parser.add_argument("--layers", type=int, default=8)
    parser.add_argument("--vocab", type=int, default=100000)
    parser.add_argument("--steps", type=int, default=4)
    args = parser.parse_args()
    torch.manual_seed(0)
    device = "cuda"
    config = BloomConfig(
        vocab_size=args.vocab,
        hidden_size=args.hidden,
        n_layer=args.layers,
        n_head=args.hidden // 64,
        use_cache=False,
    )
    model = BloomForCausalLM(config).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-2, momentum=0.9, nesterov=True)
    batch = (args.batch_size, args.length)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "last.pt"
        for step in range(args.steps):
            ids = torch.randint(0, args.vocab, batch).to(device)
            mask = torch.ones_like(ids)
            with torch.autocast("cuda", dtype=torch.bfloat16):
                loss = model(input_ids=ids, attention_mask=mask, labels=ids).loss
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            print(f"step {step} loss {loss.item():.3f}")
            if step % 2 == 1:
                model.eval()
                with torch.inference_mode(), torch.autocast("cuda", dtype=torch.bfloat16):
                    ids = torch.randint(0, args.vocab, batch).to(device)
                    print("held out", model(input_ids=ids, labels=ids).loss.item())
                model.train()
                save(path, model, optimizer, step)
                print("resumed from step", load(path, model, optimizer, device))


if __name__ == "__main__":
    main()
