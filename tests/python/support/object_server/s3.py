# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Amazon S3's REST interface: GET, HEAD and PUT of objects, ListObjectsV2; by path and by Host."""

import base64
import re
import uuid
from urllib.parse import quote
from xml.sax.saxutils import escape

from .dialect import Call, Dialect, Store
from .listing import list_names
from .messages import Problem, Request, Response
from .ranges import check_tags, read_object
from .sigv4 import check_signature
from .times import iso_time

REGION = "us-east-1"
BASES = ("localhost", "s3.amazonaws.com", f"s3.{REGION}.amazonaws.com")
NAMESPACE = "http://s3.amazonaws.com/doc/2006-03-01/"


class S3(Dialect):
    name = "s3"

    def __init__(self, store: Store, region: str = REGION):
        super().__init__(store)
        self._region = region

    def locate(self, request: Request) -> Call:
        bucket, key = _bucket_and_key(request)
        if not key:
            return Call("list" if request.query.get("list-type") == "2" else "unknown", bucket)
        operation = {"GET": "read", "HEAD": "read", "PUT": "write"}.get(request.method, "unknown")
        return Call(operation, f"{bucket}/{key}")

    def answer(self, request: Request, call: Call) -> Response:
        if not self.credentials.anonymous:
            check_signature(request, self.credentials, self._region)
        response = self._answer(request, call)
        return Response(response.status, {**response.headers, **_ids()}, response.body, response.whole)

    def _answer(self, request: Request, call: Call) -> Response:
        if call.operation == "list":
            return self._list(request, call.object)
        if call.operation == "write":
            return self._write(request, call.object)
        if call.operation != "read":
            raise Problem(405, "MethodNotAllowed", "The specified method is not allowed against this resource.")
        stored = self.stored(call.object, "NoSuchKey")
        return read_object(request, stored, stored.etag, self.range_header(request))

    def _write(self, request: Request, name: str) -> Response:
        stored = self.objects.get(name)
        if request.header("if-none-match") and stored is not None:
            raise Problem(412, "PreconditionFailed", "At least one of the preconditions did not hold")
        check_tags(request, stored.etag if stored else "")
        chunked = request.header("content-encoding") == "aws-chunked" or "x-amz-decoded-content-length" in request.lower
        body = _without_chunks(request.body) if chunked else request.body
        return Response(200, {"ETag": self.objects.put(name, body).etag})

    def _list(self, request: Request, bucket: str) -> Response:
        query = request.query
        limit = query.get("max-keys", "1000")
        if not limit.isdecimal():
            raise Problem(400, "InvalidArgument", "Provided max-keys not an integer or within integer range")
        page = list_names(
            self.objects,
            f"{bucket}/",
            prefix=query.get("prefix", ""),
            after=_from_token(query.get("continuation-token", "")) or query.get("start-after", ""),
            delimiter=query.get("delimiter", ""),
            limit=min(int(limit), 1000),
        )
        by_url = query.get("encoding-type") == "url"
        encode, encoding = (quote, "<EncodingType>url</EncodingType>") if by_url else (escape, "")
        keys = "".join(
            f"<Contents><Key>{encode(name)}</Key><LastModified>{iso_time(stored.modified)}</LastModified>"
            f"<ETag>{escape(stored.etag)}</ETag><Size>{len(stored.data)}</Size><StorageClass>STANDARD</StorageClass>"
            "</Contents>"
            for name, stored in page.objects
        )
        folders = "".join(f"<CommonPrefixes><Prefix>{encode(name)}</Prefix></CommonPrefixes>" for name in page.folders)
        token = f"<NextContinuationToken>{_token(page.last)}</NextContinuationToken>" if page.more else ""
        text = (
            f'<?xml version="1.0" encoding="UTF-8"?>\n<ListBucketResult xmlns="{NAMESPACE}">'
            f"<Name>{escape(bucket)}</Name>{encoding}<Prefix>{encode(query.get('prefix', ''))}</Prefix>"
            f"<KeyCount>{len(page.objects) + len(page.folders)}</KeyCount>"
            f"<MaxKeys>{limit}</MaxKeys><IsTruncated>{str(page.more).lower()}</IsTruncated>"
            f"{token}{keys}{folders}</ListBucketResult>"
        )
        return Response(200, {"Content-Type": "application/xml"}, text.encode())

    def error(self, request: Request, problem: Problem) -> Response:
        ids = _ids()
        text = (
            f'<?xml version="1.0" encoding="UTF-8"?>\n<Error><Code>{problem.code}</Code>'
            f"<Message>{escape(problem.text)}</Message><Region>{self._region}</Region>"
            f"<RequestId>{ids['x-amz-request-id']}</RequestId><HostId>{ids['x-amz-id-2']}</HostId></Error>"
        )
        headers = {"Content-Type": "application/xml", "x-amz-bucket-region": self._region, **ids, **problem.headers}
        return Response(problem.status, headers, text.encode())


def _bucket_and_key(request: Request) -> tuple[str, str]:
    path = request.path.removeprefix("/")
    for base in BASES:
        if request.host.endswith(f".{base}") and request.host not in BASES:
            return request.host.removesuffix(f".{base}"), path
    bucket, _, key = path.partition("/")
    return bucket, key


def _ids() -> dict[str, str]:
    return {
        "x-amz-request-id": uuid.uuid4().hex[:16].upper(),
        "x-amz-id-2": base64.b64encode(uuid.uuid4().bytes).decode(),
    }


def _token(name: str) -> str:
    """Opaque to clients, with characters that a query must encode."""
    return "1/" + base64.b64encode(name.encode()).decode() + "+="


def _from_token(token: str) -> str:
    if not token:
        return ""
    try:
        return base64.b64decode(token.removeprefix("1/").removesuffix("+="), validate=True).decode()
    except ValueError:
        raise Problem(400, "InvalidArgument", "The continuation token provided is incorrect") from None


def _without_chunks(body: bytes) -> bytes:
    """The data of a body in chunks of AWS's own, as clients send them with a checksum behind."""
    data = bytearray()
    while True:
        match = re.match(rb"([0-9a-f]+)(;[^\r\n]*)?\r\n", body)
        if not match:
            raise Problem(400, "IncompleteBody", "The request body terminated unexpectedly")
        size, begin = int(match[1], 16), match.end()
        if not size:
            return bytes(data)
        data += body[begin : begin + size]
        body = body[begin + size + 2 :]
