"""ELECTRA with Lightning: a small generator replaces words, the discriminator finds them."""

import argparse
import warnings

import lightning
import torch
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset
from transformers import ElectraConfig, ElectraForMaskedLM, ElectraForPreTraining


class Electra(lightning.LightningModule):
    def __init__(self, vocab, width, layers, length):
        super().__init__()
        shared = dict(vocab_size=vocab, embedding_size=width, max_position_embeddings=length)
        heads = width // 64
        self.generator = ElectraForMaskedLM(
            ElectraConfig(
                **shared,
                hidden_size=width // 2,
                num_hidden_layers=layers // 2,
                num_attention_heads=max(1, heads // 2),
                intermediate_size=2 * width,
            )
        )
        self.discriminator = ElectraForPreTraining(
            ElectraConfig(
                **shared,
                hidden_size=width,
                num_hidden_layers=layers,
                num_attention_heads=heads,
                intermediate_size=4 * width,
            )
        )
        self.discriminator.electra.embeddings = self.generator.electra.embeddings
        self.mask_id = 3

    def training_step(self, batch, index):
        (ids,) = batch
        masked = torch.rand(ids.shape, device=ids.device) < 0.15
        logits = self.generator(input_ids=ids.masked_fill(masked, self.mask_id)).logits
        chosen = logits[masked]
        generator_loss = F.cross_entropy(chosen.float(), ids[masked])
        with torch.no_grad():
            sampled = F.gumbel_softmax(chosen.float(), hard=False).argmax(-1)
            replaced = ids.clone()
            replaced[masked] = sampled
        is_new = (replaced != ids).float()
        scores = self.discriminator(input_ids=replaced).logits
        loss = generator_loss + 50.0 * F.binary_cross_entropy_with_logits(scores.float(), is_new)
        self.log("loss", loss, prog_bar=False)
        return loss

    def configure_optimizers(self):
        optimizer = torch.optim.AdamW(self.parameters(), lr=5e-4, eps=1e-6, weight_decay=0.01)
        schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 0.1, 1.0, total_iters=10)
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, "interval": "step"}}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--length", type=int, default=256)
    parser.add_argument("--width", type=int, default=768)
    parser.add_argument("--layers", type=int, default=8)
    parser.add_argument("--vocab", type=int, default=30522)
    parser.add_argument("--precision", default="16-mixed")
    parser.add_argument("--steps", type=int, default=4)
    args = parser.parse_args()
    warnings.filterwarnings("ignore", module="lightning")
    lightning.seed_everything(5)
    ids = torch.randint(10, args.vocab, (args.steps * args.batch_size, args.length))
    loader = DataLoader(TensorDataset(ids), args.batch_size, num_workers=1)
    trainer = lightning.Trainer(
        accelerator="gpu" if torch.cuda.is_available() else "cpu",
        devices=1,
        precision=args.precision,
        max_epochs=1,
        gradient_clip_val=1.0,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    model = Electra(args.vocab, args.width, args.layers, args.length)
    trainer.fit(model, loader)
    print("loss", trainer.callback_metrics["loss"].item())


if __name__ == "__main__":
    main()
