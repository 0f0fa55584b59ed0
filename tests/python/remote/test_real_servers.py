# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""That the servers of others can be started, and in what they differ from the strict one."""

import pytest
from http_client import Client
from object_server import S3_KEY, S3_SECRET
from s3_client import s3_client

DATA = bytes(range(256))


def test_nginx_serves_ranges_of_files(nginx):
    nginx.put("bucket/x", DATA)
    client = Client(nginx.url)
    status, headers, body = client.get("/bucket/x", Range="bytes=1-2")
    assert (status, body, headers["Content-Range"]) == (206, DATA[1:3], "bytes 1-2/256")
    assert client.get("/bucket/x", If_Match='"other"')[0] == 412
    client.close()


def test_moto_serves_ranges_whoever_asks(moto_server):
    moto_server.put("bucket/x", DATA)
    client = s3_client(moto_server.url, "anybody", "anything")
    answer = client.get_object(Bucket="bucket", Key="x", Range="bytes=1-2")
    assert (answer["ResponseMetadata"]["HTTPStatusCode"], answer["Body"].read()) == (206, DATA[1:3])


def test_rclone_checks_signatures_and_answers_ranges_with_200(rclone_server):
    rclone_server.put("bucket/x", DATA)
    client = s3_client(rclone_server.url, S3_KEY, S3_SECRET)
    answer = client.get_object(Bucket="bucket", Key="x", Range="bytes=1-2", IfMatch='"other"')
    assert (answer["ResponseMetadata"]["HTTPStatusCode"], answer["Body"].read()) == (200, DATA[1:3])
    assert answer["ContentRange"] == "bytes 1-2/256"
    client = s3_client(rclone_server.url, S3_KEY, "wrong")
    with pytest.raises(client.exceptions.ClientError, match="SignatureDoesNotMatch|403"):
        client.get_object(Bucket="bucket", Key="x")


def test_the_gcs_emulator_serves_ranges_of_media(gcs_emulator):
    gcs_emulator.put("bucket/x", DATA)
    gcs_emulator.put("bucket/y", DATA)
    client = Client(gcs_emulator.url)
    status, _, body = client.get("/storage/v1/b/bucket/o/x?alt=media&ifGenerationMatch=1", Range="bytes=1-2")
    assert (status, body) == (206, DATA[1:3])
