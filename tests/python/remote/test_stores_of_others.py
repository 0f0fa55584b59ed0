# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Servers of others, where they are installed, read, listed and written to by this library."""

import itertools

import pytest
from object_server import S3_KEY, S3_SECRET

from torch_distinput import _C

DATA = bytes(range(256)) * 4000
NAMES = ("plain", "d/a b", "d/e/f", "ü/日本", "a+b", "100%", "q?x=1&y=2", "h#1", "k=v;,@'<>&")
_numbers = itertools.count()


def bucket_of(scheme, server, **options):
    """A new bucket. Returns its URL."""
    url = f"{scheme}://others-{next(_numbers)}"
    _C.set_storage_options(url, {"endpoint_url": server.url, "timeout": "20", **options})
    return url


def read(url):
    file = _C.InputFile(url, "test")
    return file.read_at(0, file.size())


def check_reads_and_lists(url, names=NAMES):
    sizes = {f"{url}/{name}": 1000 + place for place, name in enumerate(names)}
    for name, size in sizes.items():
        _C.write_object(name, DATA[:size])
    assert dict(_C.list_objects(f"{url}/")) == sizes
    assert {name: read(name) for name in sizes} == {name: DATA[:size] for name, size in sizes.items()}
    _C.write_object(f"{url}/big", DATA)
    file = _C.InputFile(f"{url}/big", "test")
    assert file.read_at(500_000, 100) == DATA[500_000:500_100] and file.read_at(0, len(DATA)) == DATA
    with pytest.raises(_C.NotFoundError):
        read(f"{url}/none")


def test_moto(moto_server):
    url = bucket_of("s3", moto_server, key="anybody", secret="anything")
    moto_server.put(f"{url.removeprefix('s3://')}/first", DATA)
    assert read(f"{url}/first") == DATA
    check_reads_and_lists(f"{url}/folder")


def test_moto_replaces_objects(moto_server):
    url = bucket_of("s3", moto_server, key="anybody", secret="anything")
    moto_server.put(f"{url.removeprefix('s3://')}/x", DATA)
    file = _C.InputFile(f"{url}/x", "test")
    file.read_at(0, 10)
    _C.write_object(f"{url}/x", DATA[::-1])
    with pytest.raises(_C.RemoteError, match='version "[0-9a-f]{32}" of .* was wanted, "[0-9a-f]{32}" of .* is there'):
        file.read_at(900_000, 10)


def test_rclone(rclone_server):
    url = bucket_of("s3", rclone_server, key=S3_KEY, secret=S3_SECRET)
    rclone_server.put(f"{url.removeprefix('s3://')}/first", DATA)
    assert read(f"{url}/first") == DATA
    check_reads_and_lists(f"{url}/folder")


def test_rclone_meets_a_wrong_secret(rclone_server):
    url = bucket_of("s3", rclone_server, key=S3_KEY, secret="wr0ng-s3cret")
    rclone_server.put(f"{url.removeprefix('s3://')}/first", DATA)
    with pytest.raises(_C.RemoteError, match="access is denied") as caught:
        read(f"{url}/first")
    assert caught.value.status == 403 and "s3cret" not in str(caught.value)


def test_the_gcs_emulator(gcs_emulator):
    url = bucket_of("gs", gcs_emulator, anonymous="true")
    gcs_emulator.put(f"{url.removeprefix('gs://')}/first", DATA)
    assert read(f"{url}/first") == DATA
    check_reads_and_lists(f"{url}/folder")
