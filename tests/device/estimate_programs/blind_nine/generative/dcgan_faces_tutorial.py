"""DCGAN in the form of the tutorial: real and fake batches apart, BCE, fixed noise for samples."""

import argparse

import torch
import torch.nn as nn
import torch.optim as optim


def weights_init(m):
    name = m.__class__.__name__
    if "Conv" in name:
        nn.init.normal_(m.weight.data, 0.0, 0.02)
    elif "BatchNorm" in name:
        nn.init.normal_(m.weight.data, 1.0, 0.02)
        nn.init.constant_(m.bias.data, 0)


def generator(nz, ngf):
    layers = [nn.ConvTranspose2d(nz, ngf * 8, 4, 1, 0, bias=False)]
    layers += [nn.BatchNorm2d(ngf * 8), nn.ReLU(True)]
    for m in (8, 4, 2):
        layers += [nn.ConvTranspose2d(ngf * m, ngf * m // 2, 4, 2, 1, bias=False)]
        layers += [nn.BatchNorm2d(ngf * m // 2), nn.ReLU(True)]
    return nn.Sequential(*layers, nn.ConvTranspose2d(ngf, 3, 4, 2, 1, bias=False), nn.Tanh())


def discriminator(ndf):
    layers = [nn.Conv2d(3, ndf, 4, 2, 1, bias=False), nn.LeakyReLU(0.2, inplace=True)]
    for m in (1, 2, 4):
        layers += [nn.Conv2d(ndf * m, ndf * m * 2, 4, 2, 1, bias=False)]
        layers += [nn.BatchNorm2d(ndf * m * 2), nn.LeakyReLU(0.2, inplace=True)]
    return nn.Sequential(*layers, nn.Conv2d(ndf * 8, 1, 4, 1, 0, bias=False), nn.Sigmoid())


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=256)
    parser.add_argument("--nz", type=int, default=100)
    parser.add_argument("--ngf", type=int, default=96)
    parser.add_argument("--ndf", type=int, default=96)
    parser.add_argument("--iters", type=int, default=5)
    args = parser.parse_args()
    torch.manual_seed(999)
    device = torch.device("cuda:0")
    netG = generator(args.nz, args.ngf).to(device)
    netD = discriminator(args.ndf).to(device)
    netG.apply(weights_init)
    netD.apply(weights_init)
    criterion = nn.BCELoss()
    fixed_noise = torch.randn(64, args.nz, 1, 1, device=device)
    optimizerD = optim.Adam(netD.parameters(), lr=0.0002, betas=(0.5, 0.999))
    optimizerG = optim.Adam(netG.parameters(), lr=0.0002, betas=(0.5, 0.999))
    img_list, G_losses, D_losses = [], [], []
    for i in range(args.iters):
        netD.zero_grad()
        real = (torch.rand(args.batch_size, 3, 64, 64) * 2 - 1).to(device)
        label = torch.full((args.batch_size,), 1.0, dtype=torch.float, device=device)
        errD_real = criterion(netD(real).view(-1), label)
        errD_real.backward()
        noise = torch.randn(args.batch_size, args.nz, 1, 1, device=device)
        fake = netG(noise)
        label.fill_(0.0)
        errD_fake = criterion(netD(fake.detach()).view(-1), label)
        errD_fake.backward()
        errD = errD_real + errD_fake
        optimizerD.step()
        netG.zero_grad()
        label.fill_(1.0)
        errG = criterion(netD(fake).view(-1), label)
        errG.backward()
        optimizerG.step()
        G_losses.append(errG.item())
        D_losses.append(errD.item())
        print(f"[{i}/{args.iters}] Loss_D: {D_losses[-1]:.4f} Loss_G: {G_losses[-1]:.4f}")
        if i % 2 == 0:
            with torch.no_grad():
                img_list.append(netG(fixed_noise).detach().cpu())


if __name__ == "__main__":
    main()
