# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""`needs_decoders`: a mark for tests of images, which a build without the decoders' libraries cannot run."""

import pytest

import torch_distinput as tdi


def _missing() -> str:
    try:
        tdi.Dataset.from_tensors(b"").decode_image()
    except Exception as error:
        if "this build has no decoders" not in str(error):
            raise
        return str(error)
    return ""


MISSING = _missing()
needs_decoders = pytest.mark.skipif(bool(MISSING), reason=MISSING or "the decoders are there")
