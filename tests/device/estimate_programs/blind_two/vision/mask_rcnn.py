"""Instance segmentation with Mask R-CNN on circles, one evaluation pass with mask IoU."""

import argparse

import torch
import torchvision
from torch.utils.data import DataLoader, Dataset
from torchvision.models.detection.mask_rcnn import MaskRCNNPredictor


class Circles(Dataset):
    def __init__(self, n, height, width, seed=0):
        self.n, self.height, self.width, self.seed = n, height, width, seed

    def __len__(self):
        return self.n

    def __getitem__(self, index):
        gen = torch.Generator().manual_seed(self.seed * 1000 + index)
        yy, xx = torch.meshgrid(torch.arange(self.height), torch.arange(self.width), indexing="ij")
        image = torch.rand(3, self.height, self.width, generator=gen) * 0.2
        count = int(torch.randint(2, 7, (1,), generator=gen))
        masks, boxes, labels = [], [], []
        smallest = min(self.height, self.width)
        for _ in range(count):
            r = int(torch.randint(smallest // 16, smallest // 5, (1,), generator=gen))
            cy = int(torch.randint(r, self.height - r, (1,), generator=gen))
            cx = int(torch.randint(r, self.width - r, (1,), generator=gen))
            mask = (yy - cy) ** 2 + (xx - cx) ** 2 <= r * r
            label = int(torch.randint(1, 4, (1,), generator=gen))
            image[label - 1][mask] = 0.9
            masks.append(mask)
            boxes.append([cx - r, cy - r, cx + r, cy + r])
            labels.append(label)
        target = {
            "boxes": torch.tensor(boxes, dtype=torch.float32),
            "labels": torch.tensor(labels),
            "masks": torch.stack(masks).to(torch.uint8),
        }
        return image, target


def collate(batch):
    return tuple(zip(*batch))


def get_model(classes, size):
    model = torchvision.models.detection.maskrcnn_resnet50_fpn_v2(
        weights=None, weights_backbone=None, min_size=size, max_size=2 * size
    )
    features = model.roi_heads.box_predictor.cls_score.in_features
    model.roi_heads.box_predictor = torchvision.models.detection.faster_rcnn.FastRCNNPredictor(
        features, classes
    )
    channels = model.roi_heads.mask_predictor.conv5_mask.in_channels
    model.roi_heads.mask_predictor = MaskRCNNPredictor(channels, 256, classes)
    return model


@torch.no_grad()
def evaluate(model, loader, device):
    model.eval()
    found, ious = 0, []
    for images, targets in loader:
        outputs = model([image.to(device) for image in images])
        for output, target in zip(outputs, targets):
            found += len(output["labels"])
            if len(output["masks"]) == 0:
                continue
            guess = output["masks"][:, 0].cpu() > 0.5
            real = target["masks"].bool()
            both = (guess[:, None] & real[None]).flatten(2).sum(-1)
            either = (guess[:, None] | real[None]).flatten(2).sum(-1)
            ious.append((both / either.clamp(min=1)).max(0)[0].mean())
    model.train()
    return found, torch.stack(ious).mean().item() if ious else 0.0


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=4)
    parser.add_argument("--height", type=int, default=480)
    parser.add_argument("--width", type=int, default=640)
    parser.add_argument("--min-size", type=int, default=512)
    parser.add_argument("--steps", type=int, default=4)
    args = parser.parse_args()
    torch.manual_seed(0)
    device = torch.device("cuda") if torch.cuda.is_available() else torch.device("cpu")
    train = Circles(args.steps * args.batch_size, args.height, args.width)
    test = Circles(2, args.height, args.width, seed=1)
    loader = DataLoader(train, args.batch_size, shuffle=True, collate_fn=collate)
    model = get_model(4, args.min_size).to(device)
    params = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.SGD(params, lr=0.002, momentum=0.9, weight_decay=5e-4)
    warmup = torch.optim.lr_scheduler.LinearLR(optimizer, start_factor=0.1, total_iters=3)
    model.train()
    for step, (images, targets) in enumerate(loader):
        images = [image.to(device) for image in images]
        targets = [{k: v.to(device) for k, v in t.items()} for t in targets]
        losses = model(images, targets)
        loss = sum(losses.values())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        warmup.step()
        print(step, " ".join(f"{k} {v.item():.3f}" for k, v in losses.items()))
    found, iou = evaluate(model, DataLoader(test, 1, collate_fn=collate), device)
    print(f"found {found}, IoU {iou:.3f}")


if __name__ == "__main__":
    main()
