"""Full fine-tuning of a Llama in pure bfloat16: checkpointed layers, AdamW, clipped gradients."""

import argparse

import torch
from transformers import AutoModelForCausalLM, LlamaConfig, get_cosine_schedule_with_warmup

parser = argparse.ArgumentParser()
parser.add_argument("--batch-size", type=int, default=2)
parser.add_argument("--length", type=int, default=2048)
parser.add_argument("--hidden", type=int, default=2048)
parser.add_argument("--layers", type=int, default=16)
parser.add_argument("--vocab", type=int, default=128256)
parser.add_argument("--steps", type=int, default=4)
args = parser.parse_args()

device = torch.device("cuda")
torch.manual_seed(0)
config = LlamaConfig(
    vocab_size=args.vocab,
    hidden_size=args.hidden,
    intermediate_size=args.hidden * 4,
    num_hidden_layers=args.layers,
    num_attention_heads=args.hidden // 64,
    num_key_value_heads=args.hidden // 256,
    max_position_embeddings=8192,
    rope_parameters={"rope_type": "default", "rope_theta": 500000.0},
    tie_word_embeddings=True,
)
with torch.device(device):
    model = AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16)
model.to(device)
model.gradient_checkpointing_enable()
model.config.use_cache = False
model.train()

optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5, weight_decay=0.0, foreach=True)
schedule = get_cosine_schedule_with_warmup(
    optimizer, num_warmup_steps=1, num_training_steps=args.steps
)

for step in range(args.steps):
    ids = torch.randint(0, args.vocab, (args.batch_size, args.length), device=device)
    output = model(input_ids=ids, labels=ids)
    output.loss.backward()
    norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    schedule.step()
    optimizer.zero_grad()
    print(f"step {step}: loss {output.loss.item():.3f} norm {norm.item():.2f}")
