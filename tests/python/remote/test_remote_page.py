# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""The programs of docs/remote.md run as they stand, over a store of this machine."""

import pytest
from object_server import S3_KEY, S3_SECRET
from pages import run_blocks
from places import DOCS
from sample_files import tf_records

from torch_distinput import _C


def test_the_programs_of_the_page(object_server, monkeypatch, capsys, tmp_path):
    pytest.importorskip("fsspec")
    monkeypatch.setenv("AWS_ENDPOINT_URL", object_server.url("s3"))
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", S3_KEY)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", S3_SECRET)
    _C.set_storage_options("s3://pets", {})
    records = [b"%d" % number for number in range(100)]
    object_server.put_all({f"pets/train-{part}.tfrecord": tf_records(records) for part in range(2)})
    object_server.put("pets/names.txt", b"Ada\nBo\n")
    endpoint = {"https://minio.example.org": object_server.url("s3"), '"me"': f'"{S3_KEY}"', '"..."': f'"{S3_SECRET}"'}
    names = run_blocks(DOCS / "remote.md", {}, endpoint | {"/tmp/pets-cache": str(tmp_path / "cache")})
    assert sum(len(batch) for batch in names["loader"]) == 200
    assert sorted(names["rows"]) == sorted(records)
    assert list(names["lines"]) == ["Ada", "Bo"]
    missing, found = capsys.readouterr().out.splitlines()
    assert missing.startswith("TFRecordDataset: s3://pets/no-such-file: there is no such object")
    assert found == "['Ada', 'Bo']"
