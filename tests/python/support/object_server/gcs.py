# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Google Cloud Storage: its JSON interface (reading, listing, uploads in one request), the one that is like S3's, for
HMAC keys, and the exchange of refresh tokens."""

import email.parser
import email.policy
import json
import re
import secrets
from urllib.parse import parse_qsl, quote, unquote

from .bearer import check_bearer
from .credentials import Grant
from .dialect import Call, Dialect, Store
from .listing import list_names
from .messages import Problem, Request, Response
from .objects import StoredObject
from .ranges import read_object
from .s3 import S3
from .times import iso_time

TOKEN_LIFE = 3600  # seconds

_PATH = re.compile(r"(/download|/upload)?/storage/v1/b/([^/]+)/o(?:/([^/]+))?")


class GoogleCloudStorage(Dialect):
    name = "gcs"

    def __init__(self, store: Store):
        super().__init__(store)
        self._like_s3 = S3(store, region="auto")

    def locate(self, request: Request) -> Call:
        if (request.method, request.raw_path) == ("POST", "/token"):
            return Call("token")
        if _is_like_s3(request):
            return self._like_s3.locate(request)
        match = _PATH.fullmatch(request.raw_path)
        if not match:
            return Call("unknown")
        bucket = unquote(match[2])
        if match[1] == "/upload":
            return Call("write" if request.method == "POST" else "unknown", f"{bucket}/{_upload_name(request)}")
        if match[3] is None:
            return Call("list" if request.method == "GET" else "unknown", bucket)
        operation = "unknown"
        if request.method == "GET":
            operation = "read" if request.query.get("alt") == "media" else "stat"
        return Call(operation, f"{bucket}/{unquote(match[3])}")

    def answer(self, request: Request, call: Call) -> Response:
        if call.operation == "token":
            return self._exchange(request)
        if _is_like_s3(request):
            return self._like_s3.answer(request, call)
        if not self.credentials.anonymous:
            check_bearer(request, self.credentials, "authError")
        if call.operation == "list":
            return self._list(request, call.object)
        if call.operation == "write":
            return self._write(request, call.object)
        if call.operation not in ("read", "stat"):
            raise Problem(404, "notFound", "Not Found")
        stored = self.stored(call.object, "notFound")
        _check_generation(request, stored)
        if call.operation == "stat":
            return _json(_resource(stored))
        response = read_object(request, stored, f'"{stored.generation}"', self.range_header(request))
        response.headers |= {"x-goog-generation": str(stored.generation), "x-goog-hash": f"md5={stored.md5}"}
        return response

    def _list(self, request: Request, bucket: str) -> Response:
        query = request.query
        page = list_names(
            self.objects,
            f"{bucket}/",
            prefix=query.get("prefix", ""),
            after=unquote(query.get("pageToken", "")),
            delimiter=query.get("delimiter", ""),
            limit=min(int(query.get("maxResults", "1000")), 1000),
        )
        answer: dict = {"kind": "storage#objects"}
        if page.objects:
            answer["items"] = [_resource(stored) for _, stored in page.objects]
        if page.folders:
            answer["prefixes"] = page.folders
        if page.more:
            answer["nextPageToken"] = quote(page.last, safe="")
        return _json(answer)

    def _write(self, request: Request, name: str) -> Response:
        wanted = request.query.get("ifGenerationMatch")
        stored = self.objects.get(name)
        if wanted is not None and int(wanted) != (stored.generation if stored else 0):
            raise _condition_not_met()
        data = request.body if request.query.get("uploadType") == "media" else _parts(request)[1]
        return _json(_resource(self.objects.put(name, data)))

    def _exchange(self, request: Request) -> Response:
        asked = dict(parse_qsl(request.body.decode()))
        known = self.credentials.known("refresh", asked.get("refresh_token", ""))
        if asked.get("grant_type") != "refresh_token" or known is None:
            raise Problem(400, "invalid_grant", "Bad Request")
        if f"{asked.get('client_id')} {asked.get('client_secret')}" != known.secret:
            raise Problem(401, "invalid_client", "The provided client secret is invalid.")
        token = secrets.token_hex()
        self.credentials.allow(Grant("bearer", token, expires=self.credentials.now() + TOKEN_LIFE))
        return _json({"access_token": token, "expires_in": TOKEN_LIFE - 1, "token_type": "Bearer"})

    def error(self, request: Request, problem: Problem) -> Response:
        if _is_like_s3(request):
            return self._like_s3.error(request, problem)
        if request.query.get("alt") == "media" and problem.status != 401:
            headers = {"Content-Type": "text/html; charset=UTF-8", **problem.headers}
            return Response(problem.status, headers, problem.text.encode())
        code = {"InvalidRange": "requestedRangeNotSatisfiable", "PreconditionFailed": "conditionNotMet"}
        reason = {"domain": "global", "reason": code.get(problem.code, problem.code), "message": problem.text}
        text = {"error": {"code": problem.status, "message": problem.text, "errors": [reason]}}
        return Response(problem.status, {**_json(text).headers, **problem.headers}, json.dumps(text).encode())


def _is_like_s3(request: Request) -> bool:
    return request.header("authorization").startswith("AWS4-HMAC-SHA256 ")


def _upload_name(request: Request) -> str:
    if request.query.get("uploadType") == "multipart":
        return json.loads(_parts(request)[0]).get("name", "")
    return request.query.get("name", "")


def _parts(request: Request) -> tuple[bytes, bytes]:
    """The metadata and the data of a multipart upload."""
    head = f"Content-Type: {request.header('content-type')}\r\n\r\n".encode()
    message = email.parser.BytesParser(policy=email.policy.HTTP).parsebytes(head + request.body)
    if len(parts := message.get_payload()) != 2 or isinstance(parts, str):
        raise Problem(400, "badContent", "A multipart upload must have two parts")
    return parts[0].get_payload(decode=True), parts[1].get_payload(decode=True)


def _check_generation(request: Request, stored: StoredObject) -> None:
    if request.query.get("generation", str(stored.generation)) != str(stored.generation):
        raise Problem(404, "notFound", "No such object")
    if request.query.get("ifGenerationMatch", str(stored.generation)) != str(stored.generation):
        raise _condition_not_met()


def _condition_not_met() -> Problem:
    return Problem(412, "conditionNotMet", "At least one of the pre-conditions you specified did not hold.")


def _resource(stored: StoredObject) -> dict:
    bucket, _, name = stored.name.partition("/")
    return {
        "kind": "storage#object",
        "id": f"{stored.name}/{stored.generation}",
        "name": name,
        "bucket": bucket,
        "generation": str(stored.generation),
        "metageneration": "1",
        "size": str(len(stored.data)),
        "md5Hash": stored.md5,
        "etag": str(stored.generation),
        "updated": iso_time(stored.modified),
    }


def _json(value: dict) -> Response:
    return Response(200, {"Content-Type": "application/json; charset=UTF-8"}, json.dumps(value).encode())
