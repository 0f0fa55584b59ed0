# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""botocore's S3 client, as a witness of servers."""

from typing import Any

import pytest


def s3_client(url: str, key: str, secret: str, region: str = "us-east-1", **settings: Any) -> Any:
    """A client of the server at `url`, which tries once. Skips the test where boto3 is not installed."""
    boto3 = pytest.importorskip("boto3")
    from botocore.config import Config

    config = Config(
        signature_version="s3v4", s3={"addressing_style": "path"}, retries={"max_attempts": 1}, read_timeout=10
    )
    known = {"aws_access_key_id": key, "aws_secret_access_key": secret, "region_name": region}
    return boto3.client("s3", endpoint_url=url, config=config, **known, **settings)
