# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""The signatures of S3 requests are those that botocore makes of them."""

import contextlib
import hashlib
import random
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, unquote, urlsplit

import pytest

from torch_distinput import _C, NotFoundError

EMPTY_LIST = b"<ListBucketResult></ListBucketResult>"


@contextlib.contextmanager
def recorder():
    """A server that has nothing, and the requests that it gets: (method, path, headers, body)."""
    requests = []

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def answer(self):
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            requests.append((self.command, self.path, dict(self.headers.items()), body))
            answer = EMPTY_LIST if "list-type" in self.path else b""
            self.send_response(404 if "Range" in self.headers else 200)
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        do_GET = do_PUT = answer

        def log_message(self, *_):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}", requests
        finally:
            server.shutdown()
            thread.join()


def signature_of_botocore(options, endpoint, request):
    """The Authorization header that botocore gives a request for the time that it names."""
    auth = pytest.importorskip("botocore.auth")
    from botocore.awsrequest import AWSRequest
    from botocore.credentials import Credentials

    method, path, headers, _ = request
    signed = {name: value for name, value in headers.items() if name == "Host" or name.startswith("x-amz-")}
    witness = AWSRequest(method, endpoint + path, headers=signed)
    witness.context["timestamp"] = headers["x-amz-date"]
    token = options.get("session_token") or None
    signer = auth.S3SigV4Auth(Credentials(options["key"], options["secret"], token), "s3", options["region"])
    text = signer.string_to_sign(witness, signer.canonical_request(witness))
    names = signer.signed_headers(signer.headers_to_sign(witness))
    return (
        f"AWS4-HMAC-SHA256 Credential={signer.scope(witness)}, SignedHeaders={names}, "
        f"Signature={signer.signature(text, witness)}"
    )


def test_requests_are_signed_as_botocore_signs_them(monkeypatch):
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    chance = random.Random(7)

    def text(letters, most):
        return "".join(chance.choice(letters) for _ in range(chance.randint(1, most)))

    names = "ab/ +%&=?#~!*'()\"<>ä漢.;:@"
    with recorder() as (endpoint, requests):
        for turn in range(30):
            options = {
                "key": text("AB01", 20),
                "secret": text("ab/+=", 40),
                "region": chance.choice(["us-east-1", "eu-west-1"]),
                "endpoint_url": endpoint + chance.choice(["", "/base"]),
            }
            if turn % 2 == 0:
                options["session_token"] = text("abc/+=", 300)
            url, body = "s3://bucket/" + text(names, 30), chance.randbytes(chance.randint(0, 200))
            _C.set_storage_options(url, options)
            requests.clear()
            _C.write_object(url, body)
            _C.list_objects(url)
            with pytest.raises(NotFoundError):
                _C.InputFile(url, "test")
            # A late answer is asked for twice.
            put, listed, got = {
                (method, path): request for request in requests for method, path in [request[:2]]
            }.values()
            key = url.removeprefix("s3://bucket/")
            for request in (put, got):
                assert unquote(urlsplit(request[1]).path).endswith("/bucket/" + key)
            assert put[3] == body and put[2]["x-amz-content-sha256"] == hashlib.sha256(body).hexdigest()
            assert parse_qs(urlsplit(listed[1]).query) == {"list-type": ["2"], "prefix": [key]}
            for request in requests:
                assert request[2]["Authorization"] == signature_of_botocore(options, endpoint, request), url
