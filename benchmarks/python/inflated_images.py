# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""A dataset whose rows cost processor time, as decoding does, and no files."""

import zlib

import torch
from torch.utils.data import Dataset

ROWS, SHAPE = 2048, (3, 224, 224)


class InflatedImages(Dataset):
    """Images of noise as their compressed bytes."""

    def __init__(self) -> None:
        pixels = torch.randint(64, SHAPE, generator=torch.Generator().manual_seed(0), dtype=torch.uint8)
        self.packed = zlib.compress(pixels.numpy().tobytes())

    def __len__(self) -> int:
        return ROWS

    def __getitem__(self, row: int) -> torch.Tensor:
        pixels = torch.frombuffer(bytearray(zlib.decompress(self.packed)), dtype=torch.uint8)
        return pixels.reshape(SHAPE).flip(2)
