"""Adaptive sharpness-aware minimization of an MLP-Mixer from timm, in the closure form."""

import argparse

import timm
import torch
import torch.nn.functional as F


class ASAM(torch.optim.Optimizer):
    """Climbs to the worst point nearby, then descends with another optimizer."""

    def __init__(self, params, base, rho=1.0, eta=0.01, **options):
        super().__init__(params, {"rho": rho, "eta": eta, **options})
        self.base = base(self.param_groups, **options)
        self.param_groups = self.base.param_groups

    @torch.no_grad()
    def climb(self):
        norms = []
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is not None:
                    norms.append(((p.abs() + group["eta"]) * p.grad).norm())
        norm = torch.stack(norms).norm() + 1e-12
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                move = (p.abs() + group["eta"]).square() * p.grad * (group["rho"] / norm)
                p.add_(move)
                self.state[p]["move"] = move
        self.zero_grad()

    @torch.no_grad()
    def step(self, closure):
        closure = torch.enable_grad()(closure)
        loss = closure()
        self.climb()
        closure()
        for group in self.param_groups:
            for p in group["params"]:
                if "move" in self.state[p]:
                    p.sub_(self.state[p].pop("move"))
        self.base.step()
        self.zero_grad()
        return loss


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", default="mixer_b16_224")
    parser.add_argument("--batch-size", type=int, default=96)
    parser.add_argument("--size", type=int, default=224)
    parser.add_argument("--classes", type=int, default=100)
    parser.add_argument("--steps", type=int, default=3)
    args = parser.parse_args()
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = timm.create_model(
        args.model, num_classes=args.classes, img_size=args.size, drop_path_rate=0.1
    ).to(device)
    optimizer = ASAM(model.parameters(), torch.optim.SGD, lr=0.05, momentum=0.9)
    for step in range(args.steps):
        images = torch.randn(args.batch_size, 3, args.size, args.size, device=device)
        labels = torch.randint(args.classes, (args.batch_size,), device=device)

        def closure(images=images, labels=labels):
            with torch.autocast(device.type, dtype=torch.bfloat16):
                loss = F.cross_entropy(model(images), labels)
            loss.backward()
            return loss

        print(f"step {step}: {optimizer.step(closure).item():.4f}")


if __name__ == "__main__":
    main()
