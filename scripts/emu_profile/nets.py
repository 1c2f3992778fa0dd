# SPDX-License-Identifier: Apache-2.0
"""The models that are profiled: how each is built, what its input is, and which batch sizes are measured.

torchvision's classics come from torchvision without weights. The transformers and the models of scientific computing
and recommendation are written here in plain torch, so that no other package is needed; their shapes are those of the
published models, their weights are random (the time of a step does not depend on them).
"""
import torch
from torch import nn
from torch.nn import functional as F


def attention(q, k, v, causal):
    if hasattr(F, "scaled_dot_product_attention"):
        return F.scaled_dot_product_attention(q, k, v, is_causal=causal)
    scores = q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5
    if causal:
        mask = torch.ones(scores.shape[-2:], dtype=torch.bool, device=q.device).tril()
        scores = scores.masked_fill(~mask, float("-inf"))
    return scores.softmax(-1) @ v


class Attention(nn.Module):
    """Self attention of `heads` heads, of which groups share keys and values when kv_heads is smaller."""

    def __init__(self, width, heads, kv_heads, causal, bias):
        super().__init__()
        self.heads, self.kv_heads, self.causal = heads, kv_heads, causal
        self.head = width // heads
        self.qkv = nn.Linear(width, (heads + 2 * kv_heads) * self.head, bias=bias)
        self.out = nn.Linear(width, width, bias=bias)

    def forward(self, x, rope=None):
        b, s, width = x.shape
        parts = self.qkv(x).view(b, s, self.heads + 2 * self.kv_heads, self.head).transpose(1, 2)
        q, k, v = parts.split([self.heads, self.kv_heads, self.kv_heads], dim=1)
        if rope is not None:
            q, k = rotate(q, rope), rotate(k, rope)
        if self.kv_heads != self.heads:
            k = k.repeat_interleave(self.heads // self.kv_heads, dim=1)
            v = v.repeat_interleave(self.heads // self.kv_heads, dim=1)
        return self.out(attention(q, k, v, self.causal).transpose(1, 2).reshape(b, s, width))


def rotate(x, rope):
    cos, sin = rope
    left, right = x.chunk(2, dim=-1)
    return x * cos.to(x.dtype) + torch.cat((-right, left), dim=-1) * sin.to(x.dtype)


class Block(nn.Module):
    """A transformer layer: pre-norm for GPT-2, post-norm for BERT."""

    def __init__(self, width, heads, pre, causal):
        super().__init__()
        self.pre = pre
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = Attention(width, heads, heads, causal, True)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x):
        if self.pre:
            x = x + self.attention(self.norm1(x))
            return x + self.mlp(self.norm2(x))
        x = self.norm1(x + self.attention(x))
        return self.norm2(x + self.mlp(x))


class Transformer(nn.Module):
    """BERT-base (pre=False, causal=False) and GPT-2 small (pre=True, causal=True), with the head over the vocabulary."""

    def __init__(self, vocabulary, sequence, width, heads, layers, pre):
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width)
        self.places = nn.Embedding(sequence, width)
        self.blocks = nn.Sequential(*(Block(width, heads, pre, pre) for _ in range(layers)))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocabulary, bias=False)
        self.head.weight = self.tokens.weight

    def forward(self, ids):
        x = self.tokens(ids) + self.places(torch.arange(ids.shape[1], device=ids.device))
        return self.head(self.norm(self.blocks(x)))


class RmsNorm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x):
        return (x.float() * torch.rsqrt(x.float().pow(2).mean(-1, keepdim=True) + 1e-5)).to(x.dtype) * self.weight


class LlamaBlock(nn.Module):
    def __init__(self, width, heads, kv_heads, hidden):
        super().__init__()
        self.norm1, self.norm2 = RmsNorm(width), RmsNorm(width)
        self.attention = Attention(width, heads, kv_heads, True, False)
        self.gate, self.up = nn.Linear(width, hidden, bias=False), nn.Linear(width, hidden, bias=False)
        self.down = nn.Linear(hidden, width, bias=False)

    def forward(self, x, rope):
        x = x + self.attention(self.norm1(x), rope)
        y = self.norm2(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


class Llama(nn.Module):
    """The shape of Llama 3.2 1B: 16 layers of width 2048, 32 heads of which 4 share keys, a tied head: 1.24e9 weights."""

    def __init__(self, vocabulary=128256, width=2048, layers=16, heads=32, kv_heads=8, hidden=8192):
        super().__init__()
        self.head_width = width // heads
        self.tokens = nn.Embedding(vocabulary, width)
        self.blocks = nn.ModuleList(LlamaBlock(width, heads, kv_heads, hidden) for _ in range(layers))
        self.norm = RmsNorm(width)
        self.head = nn.Linear(width, vocabulary, bias=False)
        self.head.weight = self.tokens.weight

    def forward(self, ids):
        half = torch.arange(0, self.head_width, 2, device=ids.device).float() / self.head_width
        angle = torch.outer(torch.arange(ids.shape[1], device=ids.device).float(), 500000.0 ** -half)
        angle = torch.cat((angle, angle), dim=-1)
        x = self.tokens(ids)
        for block in self.blocks:
            x = block(x, (angle.cos(), angle.sin()))
        return self.head(self.norm(x))


def conv3(inputs, outputs, stride=1):
    return nn.Sequential(nn.Conv3d(inputs, outputs, 3, stride=stride, padding=1, bias=False),
                         nn.InstanceNorm3d(outputs, affine=True), nn.ReLU(inplace=True))


class UNet3D(nn.Module):
    """The shape of MLPerf's unet3d: widths 32, 64, 128, 256, 320, 320 on patches of 128³, one channel, three classes."""

    def __init__(self, widths=(32, 64, 128, 256, 320, 320)):
        super().__init__()
        self.first = nn.Sequential(conv3(1, widths[0]), conv3(widths[0], widths[0]))
        pairs = list(zip(widths, widths[1:]))
        self.down = nn.ModuleList(nn.Sequential(conv3(a, b, 2), conv3(b, b)) for a, b in pairs)
        self.lift = nn.ModuleList(nn.ConvTranspose3d(b, a, 2, stride=2) for a, b in reversed(pairs))
        self.up = nn.ModuleList(nn.Sequential(conv3(2 * a, a), conv3(a, a)) for a, _ in reversed(pairs))
        self.head = nn.Conv3d(widths[0], 3, 1)

    def forward(self, x):
        x = self.first(x)
        kept = []
        for down in self.down:
            kept.append(x)
            x = down(x)
        for lift, up in zip(self.lift, self.up):
            x = up(torch.cat((lift(x), kept.pop()), dim=1))
        return self.head(x)


class CosmoFlow(nn.Module):
    """The shape of MLPerf HPC's cosmoflow: five 3-D convolutions with pooling on 4 × 128³, three dense layers, 4 numbers."""

    def __init__(self, filters=32, layers=5, channels=4):
        super().__init__()
        parts = []
        for i in range(layers):
            parts += [nn.Conv3d(channels if i == 0 else filters << (i - 1), filters << i, 3, padding=1),
                      nn.LeakyReLU(0.3, inplace=True), nn.MaxPool3d(2)]
        self.convolutions = nn.Sequential(*parts)
        flat = (filters << (layers - 1)) * (128 >> layers) ** 3
        self.dense = nn.Sequential(nn.Flatten(), nn.Linear(flat, 128), nn.LeakyReLU(0.3), nn.Dropout(0.5),
                                   nn.Linear(128, 64), nn.LeakyReLU(0.3), nn.Dropout(0.5), nn.Linear(64, 4))

    def forward(self, x):
        return self.dense(self.convolutions(x))


class Dlrm(nn.Module):
    """The shape of DLRM: 26 tables of 200,000 rows × 64, 13 dense features, dot products of all pairs."""

    def __init__(self, tables=26, rows=200_000, width=64):
        super().__init__()
        self.tables = nn.ModuleList(nn.EmbeddingBag(rows, width, mode="sum", sparse=True) for _ in range(tables))
        self.bottom = nn.Sequential(nn.Linear(13, 512), nn.ReLU(), nn.Linear(512, 256), nn.ReLU(), nn.Linear(256, width))
        pairs = (tables + 1) * tables // 2
        self.top = nn.Sequential(nn.Linear(width + pairs, 1024), nn.ReLU(), nn.Linear(1024, 1024), nn.ReLU(),
                                 nn.Linear(1024, 512), nn.ReLU(), nn.Linear(512, 1))
        self.register_buffer("pairs", torch.tril_indices(tables + 1, tables + 1, -1), persistent=False)

    def forward(self, x):
        dense, ids = x
        low = self.bottom(dense)
        rows = torch.stack([low] + [t(ids[i].unsqueeze(1)).to(low.dtype) for i, t in enumerate(self.tables)], dim=1)
        products = torch.bmm(rows, rows.transpose(1, 2))[:, self.pairs[0], self.pairs[1]]
        return self.top(torch.cat((low, products), dim=1))


POWERS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)
HELD_OUT = (3, 12, 24, 48, 96, 192, 384)


class Net:
    """One model: build() makes it, example(batch) its input and target, loss(output, target) what is minimised."""

    def __init__(self, name, build, shape, batches=POWERS, held=(24, 96), **more):
        self.name, self.build, self.shape, self.batches, self.held = name, build, shape, batches, held
        self.kind = more.get("kind", "image")
        self.classes = more.get("classes", 1000)
        self.optimizer = more.get("optimizer", "sgd")

    @property
    def input(self):
        return "x".join(map(str, self.shape)) if self.kind != "clicks" else "13+26"

    def host_bytes(self, batch):
        """Bytes of the input of a batch as it crosses to the device."""
        if self.kind == "tokens":
            return batch * self.shape[0] * 8
        if self.kind == "clicks":
            return batch * (13 * 4 + 26 * 8)
        n = 4 * batch
        for s in self.shape:
            n *= s
        return n

    def example(self, batch, device, channels_last):
        if self.kind == "tokens":
            x = torch.randint(0, self.classes, (batch, self.shape[0]), device=device)
            return x, x
        if self.kind == "clicks":
            ids = torch.randint(0, 200_000, (26, batch), device=device)
            return (torch.rand(batch, 13, device=device), ids), torch.rand(batch, 1, device=device)
        x = torch.rand((batch, *self.shape), device=device)
        if channels_last:
            x = x.to(memory_format=torch.channels_last if len(self.shape) == 3 else torch.channels_last_3d)
        if self.kind == "volume":
            return x, torch.randint(0, 3, (batch, *self.shape[1:]), device=device)
        if self.kind == "regression":
            return x, torch.rand(batch, 4, device=device)
        return x, torch.randint(0, self.classes, (batch,), device=device)

    def loss(self, output, target):
        if hasattr(output, "logits"):  # torchvision's googlenet and inception_v3
            output = output.logits
        if self.kind == "tokens":
            return F.cross_entropy(output.flatten(0, 1).float(), target.flatten())
        if self.kind == "clicks":
            return F.binary_cross_entropy_with_logits(output.float(), target)
        if self.kind == "regression":
            return F.mse_loss(output.float(), target)
        return F.cross_entropy(output.float(), target)


def vision(name, shape=(3, 224, 224), **more):
    def build():
        import torchvision
        init = {"init_weights": False} if name in ("googlenet", "inception_v3") else {}
        return getattr(torchvision.models, name)(weights=None, **init)
    return Net(name, build, shape, **more)


FEW = (1, 2, 3, 4, 6, 8, 10, 12, 14, 16)

# The models of the training runs come first, then the rest by how often studies of storage use them.
NETS = [
    vision("resnet50", held=HELD_OUT),
    vision("resnet18", held=HELD_OUT),
    vision("alexnet", held=HELD_OUT),
    Net("cosmoflow", CosmoFlow, (4, 128, 128, 128), (1, 2, 3, 4, 6, 8, 12, 16, 24, 32), (5, 20), kind="regression"),
    Net("unet3d", UNet3D, (1, 128, 128, 128), (1, 2, 3, 4, 6, 7, 8, 10, 12, 14), (5, 9), kind="volume"),
    Net("bert_base", lambda: Transformer(30522, 128, 768, 12, 12, False), (128,), kind="tokens", classes=30522,
        optimizer="adamw", held=HELD_OUT),
    Net("gpt2", lambda: Transformer(50257, 1024, 768, 12, 12, True), (1024,), (1, 2, 3, 4, 6, 8, 12, 16, 24, 32), (5, 20),
        kind="tokens", classes=50257, optimizer="adamw"),
    Net("llama_1b", Llama, (1024,), FEW, (5, 7), kind="tokens", classes=128256, optimizer="adamw"),
    Net("dlrm", Dlrm, (13, 26), (128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768, 65536), (3000, 24000),
        kind="clicks", optimizer="sparse"),
    vision("vit_b_16"),
    vision("mobilenet_v2"),
    vision("vgg16"),
    vision("resnet101"),
    vision("resnet152"),
    vision("densenet121"),
    vision("efficientnet_b0"),
    vision("squeezenet1_1"),
    vision("shufflenet_v2_x1_0"),
    vision("googlenet"),
    vision("inception_v3", (3, 299, 299), batches=(2, 3, 4, 8, 16, 32, 64, 128, 256, 512)),  # its norms refuse batches of 1
    vision("mobilenet_v3_large"),
    vision("swin_t"),
    vision("resnet34"),
]


def optimizer(net, model):
    if net.optimizer == "adamw":
        return torch.optim.AdamW(model.parameters(), lr=1e-4)
    if net.optimizer == "sparse":
        return torch.optim.SGD(model.parameters(), lr=0.01)
    return torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
