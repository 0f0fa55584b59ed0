# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""For tests of images: `needs_decoders` marks those that a build without the decoders' libraries cannot run."""

import io

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


def encoded(image, form: str, **options) -> bytes:
    """An image of Pillow as the bytes of a file."""
    file = io.BytesIO()
    image.save(file, form, **options)
    return file.getvalue()
