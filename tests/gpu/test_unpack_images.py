# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""The CUDA kernel that unpacks images gives the same bits as the CPU code."""

import ctypes
import itertools
from pathlib import Path

import pytest
import torch

import torch_distinput as tdi

MEAN, STD = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]
DTYPES = [torch.float32, torch.float16, torch.bfloat16]


class Work(ctypes.Structure):
    """`UnpackImages` of csrc/device/cuda/cuda_abi.h."""

    _fields_ = [
        ("source", ctypes.c_void_p),
        ("target", ctypes.c_void_p),
        ("images", ctypes.c_int64),
        ("height", ctypes.c_int64),
        ("width", ctypes.c_int64),
        ("channels", ctypes.c_int32),
        ("channels_last_in", ctypes.c_int32),
        ("channels_last_out", ctypes.c_int32),
        ("type", ctypes.c_int32),
        ("scale", ctypes.POINTER(ctypes.c_float)),
        ("shift", ctypes.POINTER(ctypes.c_float)),
        ("flip", ctypes.c_void_p),
    ]


@pytest.fixture(scope="module")
def unpack():
    folders = [Path(tdi._C.__file__).parent / "lib", Path(__file__).parents[2] / "build" / "release"]
    found = [path for folder in folders for path in folder.glob("libtorch_distinput_cuda.so")]
    if not found:
        pytest.skip("the CUDA library was not built")
    library = ctypes.CDLL(str(found[0]))
    library.tdi_cuda_functions.restype = ctypes.POINTER(ctypes.c_void_p)
    prototype = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(Work), ctypes.c_void_p)
    return prototype(library.tdi_cuda_functions()[4])


@pytest.mark.parametrize(
    ("shape", "dtype", "last_in", "last_out", "flips"),
    [*itertools.product([(5, 8, 32), (3, 7, 13), (64, 224, 224)], DTYPES, [True, False], [True, False], [True, False])],
)
def test_unpack_gives_the_bits_of_the_cpu(unpack, shape, dtype, last_in, last_out, flips):
    count, height, width = shape
    images = torch.randint(0, 256, (count, height, width, 3), dtype=torch.uint8)
    given = images if last_in else images.movedim(-1, 1).contiguous()
    dataset = tdi.Dataset.from_tensor_slices(given).batch(count)
    expected = next(iter(dataset.normalize_images(MEAN, STD, dtype, "NHWC" if last_out else "NCHW")))
    mask = (torch.arange(count) % 3 == 1).to(torch.uint8)
    if flips:
        expected[mask.bool()] = expected[mask.bool()].flip(2 if last_out else 3)
    there, result, mask = given.cuda(), torch.empty_like(expected, device="cuda"), mask.cuda()
    three = ctypes.c_float * 3
    work = Work(
        there.data_ptr(),
        result.data_ptr(),
        count,
        height,
        width,
        3,
        last_in,
        last_out,
        DTYPES.index(dtype),
        three(*[1 / (255 * s) for s in STD]),
        three(*[-m / s for m, s in zip(MEAN, STD, strict=True)]),
        mask.data_ptr() if flips else None,
    )
    assert unpack(ctypes.byref(work), torch.cuda.current_stream().cuda_stream) == 0
    assert torch.equal(result.cpu(), expected)


@pytest.mark.parametrize("shape", [(0, 4, 4, 3), (2, 0, 4, 3), (2, 4, 0, 3)])
def test_images_without_pixels_stay_without(unpack, shape):
    images = torch.zeros(shape, dtype=torch.uint8, device="cuda")
    result = torch.empty(shape, device="cuda")
    torch.ops.torch_distinput.unpack_images(images, True, [1.0] * 3, [0.0] * 3, True, result)
    assert result.numel() == 0
