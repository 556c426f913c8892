"""Greedy generation with cache_implementation="static", for prompts padded on the left."""

import argparse

import torch
from transformers import GenerationConfig, LlamaConfig, LlamaForCausalLM


@torch.inference_mode()
def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--longest", type=int, default=512)
    parser.add_argument("--new", type=int, default=48)
    parser.add_argument("--hidden", type=int, default=2048)
    parser.add_argument("--layers", type=int, default=16)
    parser.add_argument("--vocab", type=int, default=32000)
    args = parser.parse_args()
    torch.manual_seed(15)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    config = LlamaConfig(
        vocab_size=args.vocab,
        hidden_size=args.hidden,
        intermediate_size=args.hidden * 11 // 4,
        num_hidden_layers=args.layers,
        num_attention_heads=args.hidden // 64,
        num_key_value_heads=max(1, args.hidden // 256),
        max_position_embeddings=4096,
    )
    model = LlamaForCausalLM(config).half().to(device).eval()
    generation = GenerationConfig(
        max_new_tokens=args.new,
        min_new_tokens=args.new,
        do_sample=False,
        repetition_penalty=1.1,
        cache_implementation="static",
        disable_compile=True,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=2,
    )
    for number in range(2):
        lengths = torch.randint(args.longest // 2, args.longest + 1, (args.batch,))
        lengths[0] = args.longest
        ids = torch.randint(3, args.vocab, (args.batch, args.longest))
        mask = torch.arange(args.longest)[None] >= args.longest - lengths[:, None]
        ids = ids.masked_fill(~mask, 0)
        out = model.generate(
            input_ids=ids.to(device),
            attention_mask=mask.long().to(device),
            generation_config=generation,
        )
        print(number, out.shape, out[:, -1].tolist()[:4])


if __name__ == "__main__":
    main()
