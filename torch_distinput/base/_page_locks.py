# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Page-locking of memory that processes share, so that devices copy from it directly.

The accelerator's runtime library does it, if torch exposes that, as `torch.cuda.cudart()` does.
"""

import contextlib
from typing import Any

import torch

_PORTABLE = 1  # cudaHostRegisterPortable: for all devices
# Why the runtime refused memory; after that it is not asked again in this process.
_refused: str | None = None


def obstacle() -> str | None:
    """Why this process cannot page-lock its own memory; None if no reason is known. Sets up no device."""
    if not torch.accelerator.is_available():
        return "there is no accelerator"
    if _runtime_of() is None:
        return f"torch cannot page-lock memory that it did not allocate for {_accelerator().type}"
    return _refused


def lock(address: int, size: int) -> bool:
    """Page-locks whole pages; returns whether that worked. After a failure `obstacle` says why."""
    global _refused
    try:
        runtime = _runtime_of()()
        error = int(runtime.cudaHostRegister(address, size, _PORTABLE))
    except Exception as raised:  # noqa: BLE001 - batches can be pinned in another way
        _refused = f"the runtime cannot page-lock memory: {raised}"
        return False
    if error:
        _refused = f"cudaHostRegister failed with error {error} for {size} bytes"
        _forget_error()
    return not error


def unlock(address: int) -> None:
    """Undoes `lock`."""
    with contextlib.suppress(Exception):  # a device that has failed
        if int(_runtime_of()().cudaHostUnregister(address)):
            _forget_error()


def _accelerator() -> torch.device:
    found = torch.accelerator.current_accelerator()
    assert found is not None, "checked by obstacle"
    return found


def _runtime_of() -> Any:
    return getattr(torch.get_device_module(_accelerator().type), "cudart", None)


def _forget_error() -> None:
    """Clears the runtime's last error, which torch would report for the user's next kernel."""
    with contextlib.suppress(RuntimeError):
        torch.empty(1, device=_accelerator()).zero_()
