"""Zero-shot classification with CLIP in fp16: text prompts once, then batches of pictures."""

import argparse

import torch
from torch.utils.data import DataLoader, Dataset
from transformers import CLIPConfig, CLIPModel


class Pictures(Dataset):
    def __init__(self, n, size):
        self.n, self.size = n, size

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        g = torch.Generator().manual_seed(i)
        return torch.randn(3, self.size, self.size, generator=g), i % 100


def features(output):
    return output if torch.is_tensor(output) else output.pooler_output


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=128)
    parser.add_argument("--size", type=int, default=224)
    parser.add_argument("--classes", type=int, default=400)
    parser.add_argument("--templates", type=int, default=3)
    parser.add_argument("--vision", type=int, default=1024)
    parser.add_argument("--text", type=int, default=768)
    parser.add_argument("--layers", type=int, default=16)
    parser.add_argument("--pictures", type=int, default=400)
    args = parser.parse_args()
    torch.manual_seed(33)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    dtype = torch.float16 if device == "cuda" else torch.float32
    config = CLIPConfig(
        text_config={
            "hidden_size": args.text,
            "intermediate_size": 4 * args.text,
            "num_hidden_layers": args.layers // 2,
            "num_attention_heads": args.text // 64,
        },
        vision_config={
            "hidden_size": args.vision,
            "intermediate_size": 4 * args.vision,
            "num_hidden_layers": args.layers,
            "num_attention_heads": args.vision // 64,
            "image_size": args.size,
            "patch_size": 14,
        },
        projection_dim=512,
    )
    model = CLIPModel(config).to(device, dtype).eval()
    weights = []
    with torch.no_grad():
        for start in range(0, args.classes, 100):
            n = min(100, args.classes - start)
            ids = torch.randint(1, 40000, (n * args.templates, 24))
            ids[:, -1] = 49407
            text = features(model.get_text_features(input_ids=ids.to(device)))
            text = torch.nn.functional.normalize(text, dim=-1).view(n, args.templates, -1).mean(1)
            weights.append(torch.nn.functional.normalize(text, dim=-1))
        classifier = torch.cat(weights).T
        loader = DataLoader(
            Pictures(args.pictures, args.size), args.batch_size, num_workers=3, pin_memory=True
        )
        top1 = top5 = 0
        for images, labels in loader:
            image = features(model.get_image_features(pixel_values=images.to(device, dtype)))
            image = torch.nn.functional.normalize(image, dim=-1)
            ranked = (100 * image @ classifier).topk(5, dim=-1).indices.cpu()
            top1 += (ranked[:, 0] == labels).sum().item()
            top5 += (ranked == labels[:, None]).any(1).sum().item()
    print(top1 / args.pictures, top5 / args.pictures)


if __name__ == "__main__":
    main()
