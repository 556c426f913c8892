"""DCGAN, as in the PyTorch examples: transposed convolutions, two Adams, fixed noise."""

import argparse
import random
import tempfile

import torch
import torch.nn as nn

parser = argparse.ArgumentParser()
parser.add_argument("--batch-size", type=int, default=128)
parser.add_argument("--nz", type=int, default=100)
parser.add_argument("--ngf", type=int, default=128)
parser.add_argument("--ndf", type=int, default=128)
parser.add_argument("--steps", type=int, default=4)
parser.add_argument("--lr", type=float, default=0.0002)
parser.add_argument("--seed", type=int, default=999)
opt = parser.parse_args()

random.seed(opt.seed)
torch.manual_seed(opt.seed)
device = torch.device("cuda:0" if torch.cuda.is_available() else "cpu")


def weights_init(m):
    name = m.__class__.__name__
    if name.find("Conv") != -1:
        nn.init.normal_(m.weight, 0.0, 0.02)
    elif name.find("BatchNorm") != -1:
        nn.init.normal_(m.weight, 1.0, 0.02)
        nn.init.zeros_(m.bias)


class Generator(nn.Module):
    def __init__(self):
        super().__init__()
        layers = []
        sizes = [opt.nz, opt.ngf * 8, opt.ngf * 4, opt.ngf * 2, opt.ngf]
        for i, (a, b) in enumerate(zip(sizes, sizes[1:])):
            stride, padding = (1, 0) if i == 0 else (2, 1)
            layers += [nn.ConvTranspose2d(a, b, 4, stride, padding, bias=False)]
            layers += [nn.BatchNorm2d(b), nn.ReLU(True)]
        self.main = nn.Sequential(
            *layers, nn.ConvTranspose2d(opt.ngf, 3, 4, 2, 1, bias=False), nn.Tanh()
        )

    def forward(self, x):
        return self.main(x)


class Discriminator(nn.Module):
    def __init__(self):
        super().__init__()
        layers = [nn.Conv2d(3, opt.ndf, 4, 2, 1, bias=False), nn.LeakyReLU(0.2, inplace=True)]
        for m in (1, 2, 4):
            layers += [nn.Conv2d(opt.ndf * m, opt.ndf * m * 2, 4, 2, 1, bias=False)]
            layers += [nn.BatchNorm2d(opt.ndf * m * 2), nn.LeakyReLU(0.2, inplace=True)]
        self.main = nn.Sequential(
            *layers, nn.Conv2d(opt.ndf * 8, 1, 4, 1, 0, bias=False), nn.Sigmoid()
        )

    def forward(self, x):
        return self.main(x).view(-1)


netG = Generator().to(device)  # noqa: N816
netG.apply(weights_init)
netD = Discriminator().to(device)  # noqa: N816
netD.apply(weights_init)
criterion = nn.BCELoss()
fixed_noise = torch.randn(64, opt.nz, 1, 1, device=device)
optimizerD = torch.optim.Adam(netD.parameters(), lr=opt.lr, betas=(0.5, 0.999))  # noqa: N816
optimizerG = torch.optim.Adam(netG.parameters(), lr=opt.lr, betas=(0.5, 0.999))  # noqa: N816

for i in range(opt.steps):
    # The discriminator: real pictures, then made ones.
    netD.zero_grad()
    real = torch.rand(opt.batch_size, 3, 64, 64).mul_(2).sub_(1).to(device)
    label = torch.full((opt.batch_size,), 1.0, device=device)
    output = netD(real)
    errD_real = criterion(output, label)  # noqa: N816
    errD_real.backward()
    noise = torch.randn(opt.batch_size, opt.nz, 1, 1, device=device)
    fake = netG(noise)
    label.fill_(0.0)
    errD_fake = criterion(netD(fake.detach()), label)  # noqa: N816
    errD_fake.backward()
    optimizerD.step()
    # The generator.
    netG.zero_grad()
    label.fill_(1.0)
    errG = criterion(netD(fake), label)  # noqa: N816
    errG.backward()
    optimizerG.step()
    print(f"[{i}/{opt.steps}] D {(errD_real + errD_fake).item():.4f} G {errG.item():.4f}")

with torch.no_grad():
    images = netG(fixed_noise).cpu()
with tempfile.TemporaryDirectory() as folder:
    torch.save(images, f"{folder}/samples.pt")
    torch.save(netG.state_dict(), f"{folder}/netG.pth")
