# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""The optional CUDA library is separate: the main library needs no CUDA, the CUDA library loads without a driver."""

import ctypes
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from torch_distinput import _C

LIBRARY = Path(_C.__file__).parent / "lib" / "libtorch_distinput_cuda.so"
NVCC = shutil.which("nvcc")
NO_DEVICE = {35: "insufficient driver", 100: "no device"}


class Functions(ctypes.Structure):
    """`CudaFunctions` of csrc/device/cuda/cuda_abi.h."""

    _fields_ = [
        ("check_device", ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int32)),
        ("exchange_capture_mode", ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ctypes.c_int))),
        ("new_stream", ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int32, ctypes.POINTER(ctypes.c_void_p))),
        ("pci_address", ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int32, ctypes.c_char_p, ctypes.c_int32)),
        ("capture_status", ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.POINTER(ctypes.c_int))),
        ("unpack_images", ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)),
        ("nccl_init", ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ctypes.c_int32), ctypes.c_int32)),
        ("nccl_all_reduce", ctypes.c_void_p),
        ("nccl_reduce", ctypes.c_void_p),
        ("nccl_gather", ctypes.c_void_p),
        ("error_text", ctypes.CFUNCTYPE(ctypes.c_char_p, ctypes.c_int)),
        ("range_push", ctypes.CFUNCTYPE(None, ctypes.c_char_p)),
        ("range_pop", ctypes.CFUNCTYPE(None)),
    ]


@pytest.mark.skipif(shutil.which("nm") is None, reason="needs nm")
def test_the_main_library_needs_no_symbol_of_cuda():
    libraries = [Path(_C.__file__), *(Path(_C.__file__).parent / "lib").glob("libtorch_distinput.so.*")]
    assert len(libraries) == 2
    for library in libraries:
        listed = subprocess.run(["nm", "-D", "--undefined-only", library], capture_output=True, text=True, check=True)
        assert [line for line in listed.stdout.splitlines() if "cuda" in line.lower() or "nccl" in line.lower()] == []


@pytest.fixture
def functions() -> Functions:
    if not LIBRARY.exists():
        pytest.skip("nvcc was not found when the package was built")
    library = ctypes.CDLL(str(LIBRARY))
    library.tdi_cuda_functions.restype = ctypes.POINTER(Functions)
    return library.tdi_cuda_functions().contents


def test_the_cuda_library_loads_without_a_driver_and_says_so(functions):
    error = functions.check_device(0)
    if error != 0:
        assert error in NO_DEVICE
        assert functions.error_text(error)
    mode = ctypes.c_int(2)
    assert functions.exchange_capture_mode(ctypes.byref(mode)) in (0, *NO_DEVICE)
    if error == 0:
        functions.exchange_capture_mode(ctypes.byref(mode))
    else:
        assert functions.new_stream(0, ctypes.byref(ctypes.c_void_p())) in NO_DEVICE
        assert functions.pci_address(0, ctypes.create_string_buffer(32), 32) in NO_DEVICE


@pytest.mark.skipif(NVCC is None, reason="needs nvcc")
def test_the_cuda_library_is_built_wherever_nvcc_is():
    assert LIBRARY.exists()


@pytest.mark.skipif(NVCC is None, reason="needs nvcc")
def test_the_cuda_library_has_code_for_every_generation_that_nvcc_knows(functions):
    del functions
    listed = subprocess.run([NVCC, "--list-gpu-arch"], capture_output=True, text=True, check=True).stdout
    known = [int(found) for found in re.findall(r"compute_(\d+)", listed)]
    built = {int(found) for found in re.findall(rb"sm_(\d{2,3})\b", LIBRARY.read_bytes())}
    generations = {arch // 10 for arch in known if arch >= 75}
    assert generations <= {arch // 10 for arch in built}
    assert 75 in built


def test_the_cuda_library_says_why_devices_cannot_work_together(functions):
    devices = (ctypes.c_int32 * 2)(0, 1)
    error = functions.nccl_init(devices, 2)
    assert error == 0 or functions.error_text(error).decode() not in ("", "unknown")
    assert functions.nccl_init(devices, 2) == error
