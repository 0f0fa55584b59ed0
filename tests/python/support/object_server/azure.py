# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Azure Blob Storage's REST interface: Get, Put and List Blobs. The account is the first part of the path, as with
emulators, or of Host."""

import re
import uuid
from email.utils import formatdate
from xml.sax.saxutils import escape

from .bearer import check_bearer
from .dialect import Call, Dialect
from .listing import list_names
from .messages import Problem, Request, Response
from .objects import StoredObject
from .ranges import check_tags, read_object
from .shared_key import check_shared_key, refused
from .times import from_iso_time, iso_time

# How a host name ends behind the account.
BASES = (".blob.core.windows.net", ".blob.localhost")
CODES = {"PreconditionFailed": "ConditionNotMet", "NotFound": "BlobNotFound"}


class AzureBlob(Dialect):
    name = "azure"

    def locate(self, request: Request) -> Call:
        _, container, blob = _place(request)
        if not blob:
            lists = (request.query.get("restype"), request.query.get("comp")) == ("container", "list")
            return Call("list" if lists and request.method == "GET" else "unknown", container)
        if request.query.get("comp"):
            return Call("unknown", f"{container}/{blob}")
        operation = {"GET": "read", "HEAD": "read", "PUT": "write"}.get(request.method, "unknown")
        return Call(operation, f"{container}/{blob}")

    def range_header(self, request: Request) -> str:
        return request.header("x-ms-range") or request.header("range")

    def answer(self, request: Request, call: Call) -> Response:
        if not self.credentials.anonymous:
            self._check_credentials(request)
        response = self._answer(request, call)
        response.headers |= _common(request)
        return response

    def _check_credentials(self, request: Request) -> None:
        if "sig" in request.query:
            self._check_sas(request)
        elif request.header("authorization").startswith("SharedKey "):
            check_shared_key(request, self.credentials, _place(request)[0])
        elif request.header("authorization"):
            check_bearer(request, self.credentials, "InvalidAuthenticationInfo")
        else:
            raise Problem(401, "NoAuthenticationInformation", "Authorization is missing")

    def _check_sas(self, request: Request) -> None:
        """By equality: each parameter of a token that the server knows must be there, and as it was."""
        if request.header("authorization"):
            raise Problem(400, "InvalidAuthenticationInfo", "A SAS and an Authorization header")
        known = self.credentials.known("sas", request.query["sig"])
        wanted = dict(pair.partition("=")[::2] for pair in known.secret.split("&")) if known else {}
        raw = dict(pair.partition("=")[::2] for pair in request.raw_query.split("&"))
        if not known or any(raw.get(name) != value for name, value in wanted.items()):
            raise refused("Signature did not match.")
        expiry = request.query.get("se")
        if expiry and from_iso_time(expiry) < self.credentials.now():
            raise refused("Signature not valid in the specified time frame")
        self.credentials.use(known, refused("Signature not valid in the specified time frame"))

    def _answer(self, request: Request, call: Call) -> Response:
        if call.operation == "list":
            return self._list(request, call.object)
        if call.operation == "write":
            return self._write(request, call.object)
        if call.operation != "read":
            raise Problem(405, "UnsupportedHttpVerb", "The resource doesn't support the specified HTTP verb.")
        stored = self.stored(call.object, "BlobNotFound")
        asked = self.range_header(request)
        if asked and not re.fullmatch(r"bytes=\d+-\d*", asked):
            raise Problem(400, "InvalidHeaderValue", f"Range {asked}: blobs have no ranges of this form")
        response = read_object(request, stored, _tag(stored), asked)
        response.headers |= {"x-ms-blob-type": "BlockBlob", "x-ms-creation-time": response.headers["Last-Modified"]}
        if response.status == 200:
            response.headers["Content-MD5"] = stored.md5
        elif request.header("x-ms-range-get-content-md5").lower() == "true":
            response.headers["Content-MD5"] = StoredObject("", bytes(response.body), 0, 0).md5
        return response

    def _write(self, request: Request, name: str) -> Response:
        if request.header("x-ms-blob-type") != "BlockBlob":
            raise Problem(400, "MissingRequiredHeader", "x-ms-blob-type must be BlockBlob")
        stored = self.objects.get(name)
        if request.header("if-none-match") == "*" and stored is not None:
            raise Problem(409, "BlobAlreadyExists", "The specified blob already exists.")
        check_tags(request, _tag(stored) if stored else "")
        stored = self.objects.put(name, request.body)
        modified = formatdate(stored.modified, usegmt=True)
        return Response(201, {"ETag": _tag(stored), "Last-Modified": modified, "Content-MD5": stored.md5})

    def _list(self, request: Request, container: str) -> Response:
        query = request.query
        page = list_names(
            self.objects,
            f"{container}/",
            prefix=query.get("prefix", ""),
            after=_from_marker(query.get("marker", "")),
            delimiter=query.get("delimiter", ""),
            limit=min(int(query.get("maxresults", "5000")), 5000),
        )
        blobs = "".join(_blob(name, stored) for name, stored in page.objects)
        folders = "".join(f"<BlobPrefix><Name>{escape(name)}</Name></BlobPrefix>" for name in page.folders)
        marker = f"<NextMarker>{_marker(page.last)}</NextMarker>" if page.more else "<NextMarker />"
        text = (
            f'\ufeff<?xml version="1.0" encoding="utf-8"?><EnumerationResults ContainerName="{escape(container)}">'
            f"<Prefix>{escape(query.get('prefix', ''))}</Prefix><Blobs>{blobs}{folders}</Blobs>{marker}"
            "</EnumerationResults>"
        )
        return Response(200, {"Content-Type": "application/xml"}, text.encode())

    def error(self, request: Request, problem: Problem) -> Response:
        code = CODES.get(problem.code, problem.code)
        sentence, _, rest = problem.text.partition("\n")
        detail = f"<AuthenticationErrorDetail>{escape(rest)}</AuthenticationErrorDetail>" if rest else ""
        headers = {"Content-Type": "application/xml", "x-ms-error-code": code, **_common(request), **problem.headers}
        text = (
            f'\ufeff<?xml version="1.0" encoding="utf-8"?><Error><Code>{code}</Code><Message>{escape(sentence)}\n'
            f"RequestId:{headers['x-ms-request-id']}\nTime:{iso_time(self.credentials.now())}</Message>{detail}</Error>"
        )
        return Response(problem.status, headers, text.encode())


def _place(request: Request) -> tuple[str, str, str]:
    """The account, the container and the blob."""
    path = request.path.removeprefix("/")
    for base in BASES:
        if request.host.endswith(base):
            container, _, blob = path.partition("/")
            return request.host.removesuffix(base), container, blob
    account, _, rest = path.partition("/")
    container, _, blob = rest.partition("/")
    return account, container, blob


def _common(request: Request) -> dict[str, str]:
    return {"x-ms-request-id": str(uuid.uuid4()), "x-ms-version": request.header("x-ms-version") or "2021-12-02"}


def _tag(stored: StoredObject) -> str:
    return f'"0x{stored.generation:016X}"'


def _blob(name: str, stored: StoredObject) -> str:
    tag = _tag(stored).strip('"')
    return (
        f"<Blob><Name>{escape(name)}</Name><Properties><Last-Modified>{formatdate(stored.modified, usegmt=True)}"
        f"</Last-Modified><Etag>{tag}</Etag><Content-Length>{len(stored.data)}</Content-Length>"
        f"<Content-MD5>{stored.md5}</Content-MD5><BlobType>BlockBlob</BlobType></Properties></Blob>"
    )


def _marker(name: str) -> str:
    return f"2!{len(name.encode())}!{name.encode().hex()}"


def _from_marker(marker: str) -> str:
    try:
        return bytes.fromhex(marker.rpartition("!")[2]).decode()
    except ValueError:
        raise Problem(400, "InvalidQueryParameterValue", "marker") from None
