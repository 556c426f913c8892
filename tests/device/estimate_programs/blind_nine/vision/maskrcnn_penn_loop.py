"""Mask R-CNN with new heads, as in the detection tutorial: masks, evaluation."""

import argparse

import torch
from torch.utils.data import DataLoader, Dataset
from torchvision.models.detection import maskrcnn_resnet50_fpn
from torchvision.models.detection.faster_rcnn import FastRCNNPredictor
from torchvision.models.detection.mask_rcnn import MaskRCNNPredictor


class People(Dataset):
    def __init__(self, count, height, width):
        self.count, self.height, self.width = count, height, width

    def __len__(self):
        return self.count

    def __getitem__(self, i):
        g = torch.Generator().manual_seed(i)
        image = torch.rand(3, self.height, self.width, generator=g)
        people = int(torch.randint(1, 5, (1,), generator=g))
        masks = torch.zeros(people, self.height, self.width, dtype=torch.uint8)
        boxes = torch.zeros(people, 4)
        for k in range(people):
            x = int(torch.randint(0, self.width // 2, (1,), generator=g))
            y = int(torch.randint(0, self.height // 3, (1,), generator=g))
            w, h = self.width // 4, self.height // 2
            masks[k, y : y + h, x : x + w] = 1
            boxes[k] = torch.tensor([x, y, x + w, y + h])
        labels = torch.ones(people, dtype=torch.int64)
        return image, {"boxes": boxes, "labels": labels, "masks": masks}


def get_model(num_classes, min_size, max_size):
    model = maskrcnn_resnet50_fpn(
        weights=None, weights_backbone=None, min_size=min_size, max_size=max_size
    )
    features = model.roi_heads.box_predictor.cls_score.in_features
    model.roi_heads.box_predictor = FastRCNNPredictor(features, num_classes)
    features = model.roi_heads.mask_predictor.conv5_mask.in_channels
    model.roi_heads.mask_predictor = MaskRCNNPredictor(features, 256, num_classes)
    return model


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=2)
    parser.add_argument("--height", type=int, default=400)
    parser.add_argument("--width", type=int, default=500)
    parser.add_argument("--min-size", type=int, default=600)
    parser.add_argument("--max-size", type=int, default=1000)
    parser.add_argument("--steps", type=int, default=4)
    args = parser.parse_args()
    torch.manual_seed(0)
    device = torch.device("cuda")
    model = get_model(2, args.min_size, args.max_size).to(device)
    params = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.SGD(params, lr=0.001, momentum=0.9, weight_decay=0.0005)
    data = People(args.batch_size * args.steps, args.height, args.width)
    loader = DataLoader(
        data, args.batch_size, shuffle=True, collate_fn=lambda rows: tuple(zip(*rows))
    )
    model.train()
    for images, targets in loader:
        images = [image.to(device) for image in images]
        targets = [{name: value.to(device) for name, value in t.items()} for t in targets]
        loss_dict = model(images, targets)
        losses = sum(loss_dict.values())
        optimizer.zero_grad()
        losses.backward()
        optimizer.step()
        print({name: round(value.item(), 3) for name, value in loss_dict.items()})
    model.eval()
    with torch.no_grad():
        found = model([data[0][0].to(device)])
    print(len(found[0]["boxes"]), found[0]["masks"].shape)


if __name__ == "__main__":
    main()
