# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""An object server for tests: http, S3, Google Cloud Storage, Azure Blob Storage and the Hugging Face Hub over the same
objects, strict about all that real stores check, with faults that tests ask for. Standard library only; its signatures
are checked by code of its own, so that a mistake of the library is none of the server's too."""

from .handle import AZURE_ACCOUNT, AZURE_KEY, S3_KEY, S3_SECRET, TOKEN, ObjectServer
from .request_log import Entry

__all__ = ["AZURE_ACCOUNT", "AZURE_KEY", "S3_KEY", "S3_SECRET", "TOKEN", "Entry", "ObjectServer"]
