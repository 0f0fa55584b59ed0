# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""The Hugging Face Hub's way to the files of data sets, and the place that its redirects lead to.

`U/R/path` is the object of the file `path` in the data set `U/R`, `models/U/R/path` and `spaces/U/R/path` those of
models and spaces, in their only revision. Small texts lie at the Hub itself, all else elsewhere.
"""

import hashlib
import hmac
import json
import re
import secrets
import threading
import time
import uuid
from urllib.parse import quote, unquote, urlencode

from .bearer import check_bearer
from .dialect import Call, Dialect, Store
from .listing import list_names
from .messages import Problem, Request, Response
from .objects import StoredObject
from .ranges import read_object

COMMIT = hashlib.sha1(b"the only revision", usedforsecurity=False).hexdigest()
REVISIONS = ("main", COMMIT)

_RESOLVE = re.compile(r"/(?:(datasets|spaces)/)?([^/]+/[^/]+)/resolve/([^/]+)/(.+)")
_CACHE = re.compile(r"/api/resolve-cache/(datasets|models|spaces)/([^/]+/[^/]+)/([^/]+)/(.+)")
_API = re.compile(r"/api/(datasets|models|spaces)/([^/]+/[^/]+)(?:/(tree|revision)/([^/]+)(?:/(.+))?)?")
_TEXTS = (".json", ".md", ".txt")


class RateLimit:
    """So many requests in each window of so many seconds, the first of which begins with the first request."""

    def __init__(self, quota: int, seconds: float):
        self._lock = threading.Lock()
        self.quota, self.seconds = quota, seconds
        self._left, self._end = 0, 0.0

    def take(self) -> tuple[bool, int, float]:
        """Whether there was a request left, how many there are now, and in how many seconds the window ends."""
        with self._lock:
            now = time.monotonic()
            if now >= self._end:
                self._left, self._end = self.quota, now + self.seconds
            allowed = self._left > 0
            self._left -= allowed
            return allowed, self._left, self._end - now


class Hub(Dialect):
    name = "hub"

    def __init__(self, store: Store, signed_urls: "SignedUrls"):
        super().__init__(store)
        self._signed_urls = signed_urls
        self._limits: dict[str, RateLimit] = {}

    def limit_rate(self, bucket: str, requests: int, seconds: float) -> None:
        self._limits[bucket] = RateLimit(requests, seconds)

    def locate(self, request: Request) -> Call:
        if match := _CACHE.fullmatch(request.raw_path):
            return Call("read", f"{_repository(match)}/{unquote(match[4])}")
        if match := _RESOLVE.fullmatch(request.raw_path):
            return Call("resolve", f"{_repository(match)}/{unquote(match[4])}")
        if match := _API.fullmatch(request.raw_path):
            return Call("list" if match[3] == "tree" else "stat", _repository(match))
        return Call("unknown")

    def answer(self, request: Request, call: Call) -> Response:
        headers = self._limited("resolvers" if call.operation == "resolve" else "api")
        if not self.credentials.anonymous:
            check_bearer(request, self.credentials, "InvalidCredentials")
        if request.method not in ("GET", "HEAD") or call.operation == "unknown":
            raise Problem(404, "NotFound", "Not found")
        answers = {"resolve": self._resolve, "read": self._read, "list": self._tree, "stat": self._revision}
        response = answers[call.operation](request, call.object)
        response.headers |= {**headers, "X-Request-Id": uuid.uuid4().hex, "X-Repo-Commit": COMMIT}
        return response

    def _limited(self, bucket: str) -> dict[str, str]:
        """The headers that tell of the limit. Raises Problem(429)."""
        limit = self._limits.get(bucket)
        if limit is None:
            return {}
        allowed, left, seconds = limit.take()
        headers = {
            "RateLimit": f'"{bucket}";r={left};t={int(seconds) + 1}',
            "RateLimit-Policy": f'"fixed window";"{bucket}";q={limit.quota};w={int(limit.seconds)}',
        }
        if not allowed:
            raise Problem(429, "TooManyRequests", "We had to rate limit your IP", headers)
        return headers

    def _resolve(self, request: Request, name: str) -> Response:
        match = _RESOLVE.fullmatch(request.raw_path)
        self._check_place(_repository(match), unquote(match[3]))
        stored = self.stored(name, "EntryNotFound")
        if name.endswith(_TEXTS):
            place = f"/api/resolve-cache/{match[1] or 'models'}/{match[2]}/{COMMIT}/{match[4]}"
            return Response(307, {"Location": place}, f"Temporary Redirect. Redirecting to {place}".encode())
        headers = {
            "Location": self._signed_urls.url(stored),
            "ETag": f'"{_content(stored)}"',
            "X-Linked-ETag": f'"{_content(stored)}"',
            "X-Linked-Size": str(len(stored.data)),
            "Accept-Ranges": "bytes",
        }
        return Response(302, headers, f"Found. Redirecting to {headers['Location']}".encode())

    def _read(self, request: Request, name: str) -> Response:
        stored = self.stored(name, "EntryNotFound")
        return read_object(request, stored, f'"{_oid(stored)}"', self.range_header(request))

    def _check_place(self, repository: str, revision: str) -> None:
        if not self.objects.page(f"{repository}/", "", 1)[0]:
            raise Problem(404, "RepoNotFound", "Repository not found")
        if revision not in REVISIONS:
            raise Problem(404, "RevisionNotFound", f"Invalid rev id: {revision}")

    def _revision(self, request: Request, repository: str) -> Response:
        match = _API.fullmatch(request.raw_path)
        self._check_place(repository, unquote(match[4] or "main"))
        page = list_names(self.objects, f"{repository}/", prefix="", after="", delimiter="", limit=10_000)
        siblings = [{"rfilename": name} for name, _ in page.objects]
        return _json({"id": repository, "sha": COMMIT, "private": False, "siblings": siblings})

    def _tree(self, request: Request, repository: str) -> Response:
        match = _API.fullmatch(request.raw_path)
        self._check_place(repository, unquote(match[4]))
        folder = f"{unquote(match[5]).strip('/')}/" if match[5] else ""
        recursive = request.query.get("recursive", "").lower() in ("true", "1")
        after = bytes.fromhex(request.query.get("cursor", "")).decode()
        page = list_names(
            self.objects,
            f"{repository}/",
            prefix=folder,
            after=after,
            delimiter="" if recursive else "/",
            limit=min(int(request.query.get("limit", "1000")), 1000),
        )
        if folder and not (after or page.objects or page.folders):
            raise Problem(404, "EntryNotFound", f"{folder} does not exist")
        folders = _folders_between([after, *(name for name, _ in page.objects)], folder) if recursive else page.folders
        entries = [_folder_entry(name) for name in folders] + [_file_entry(*each) for each in page.objects]
        response = _json(entries)
        if page.more:
            query = urlencode({**request.query, "cursor": page.last.encode().hex()})
            link = f"{self.addresses['hub']}{request.raw_path}?{query}"
            response.headers["Link"] = f'<{link}>; rel="next"'
        return response

    def error(self, request: Request, problem: Problem) -> Response:
        headers = {"X-Error-Code": problem.code, "X-Error-Message": problem.text, "X-Request-Id": uuid.uuid4().hex}
        body = json.dumps({"error": problem.text}).encode()
        return Response(problem.status, {"Content-Type": "application/json", **headers, **problem.headers}, body)


def _folders_between(names: list[str], prefix: str) -> list[str]:
    """The folders below `prefix` that begin with a name: those that the name before is not in. With a slash each."""
    folders = []
    for before, name in zip(names, names[1:]):
        parts = name[len(prefix) :].split("/")[:-1]
        paths = [prefix + "/".join(parts[: depth + 1]) + "/" for depth in range(len(parts))]
        folders += [path for path in paths if not before.startswith(path)]
    return folders


def _folder_entry(name: str) -> dict:
    return {"type": "directory", "oid": COMMIT, "size": 0, "path": name.rstrip("/")}


def _repository(match: re.Match) -> str:
    """The name before those of its files."""
    kind = match[1] or "models"
    return unquote(match[2]) if kind == "datasets" else f"{kind}/{unquote(match[2])}"


def _oid(stored: StoredObject) -> str:
    """What git calls the content, as if it were no pointer."""
    head = f"blob {len(stored.data)}\0".encode()
    return hashlib.sha1(head + stored.data, usedforsecurity=False).hexdigest()


def _content(stored: StoredObject) -> str:
    return hashlib.sha256(stored.data).hexdigest()


def _file_entry(name: str, stored: StoredObject) -> dict:
    entry = {"type": "file", "oid": _oid(stored), "size": len(stored.data), "path": name}
    if not name.endswith(_TEXTS):
        entry["lfs"] = {"oid": _content(stored), "size": len(stored.data), "pointerSize": 134}
    return entry


def _json(value: object) -> Response:
    return Response(200, {"Content-Type": "application/json; charset=utf-8"}, json.dumps(value).encode())


class SignedUrls(Dialect):
    """Objects under addresses that anybody may read from until they expire, on another host name than the Hub's. What
    lies at an address stays as it is; its tag is of another form than the Hub's."""

    name = "cdn"

    def __init__(self, store: Store):
        super().__init__(store)
        self._secret = secrets.token_bytes(16)
        self._kept: dict[tuple[str, str], StoredObject] = {}
        self.lifetime = 3600.0  # seconds

    def url(self, stored: StoredObject) -> str:
        name, expires = stored.name, repr(self.credentials.now() + self.lifetime)
        content = _content(stored)
        self._kept[name, content] = stored
        signature = self._signature(name, content, expires)
        query = urlencode({"Content": content, "Expires": expires, "Signature": signature})
        return f"{self.addresses['cdn'].replace('127.0.0.1', 'localhost')}/{quote(name)}?{query}"

    def _signature(self, *signed: str) -> str:
        return hmac.digest(self._secret, " ".join(signed).encode(), "sha256").hex()

    def locate(self, request: Request) -> Call:
        return Call("read" if request.method in ("GET", "HEAD") else "unknown", request.path.removeprefix("/"))

    def answer(self, request: Request, call: Call) -> Response:
        if request.header("authorization"):
            raise Problem(400, "InvalidArgument", "Only one auth mechanism allowed")
        if call.operation != "read":
            raise Problem(405, "MethodNotAllowed", "GET and HEAD only")
        content, expires, signature = (request.query.get(name, "") for name in ("Content", "Expires", "Signature"))
        if not hmac.compare_digest(signature.encode(), self._signature(call.object, content, expires).encode()):
            raise Problem(403, "AccessDenied", "Access denied")
        if float(expires) < self.credentials.now():
            raise Problem(403, "AccessDenied", "Request has expired")
        stored = self._kept[call.object, content]
        return read_object(request, stored, stored.etag, self.range_header(request))

    def error(self, request: Request, problem: Problem) -> Response:
        text = f"<Error><Code>{problem.code}</Code><Message>{problem.text}</Message></Error>"
        return Response(problem.status, {"Content-Type": "text/xml", **problem.headers}, text.encode())
