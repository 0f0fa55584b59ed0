# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Reading a part of an object, under conditions: RFC 9110, for one range and strong tags."""

import re
from email.utils import formatdate

from .messages import Problem, Request, Response
from .objects import StoredObject

_RANGE = re.compile(r"bytes=(\d*)-(\d*)")


def asked_range(header: str, size: int) -> tuple[int, int] | None:
    """The first and the last byte that `header` asks for; None if it must be ignored. Raises Problem(416)."""
    match = _RANGE.fullmatch(header)
    if not match or not (match[1] or match[2]):
        return None
    if not match[1]:
        first, last = max(size - int(match[2]), 0), size - 1
    else:
        first, last = int(match[1]), min(int(match[2] or size - 1), size - 1)
        if match[2] and int(match[2]) < first:
            return None
    if first >= size or last < first:
        raise Problem(
            416, "InvalidRange", "The requested range is not satisfiable", {"Content-Range": f"bytes */{size}"}
        )
    return first, last


def check_tags(request: Request, etag: str) -> None:
    wanted = request.header("if-match")
    if wanted and wanted != "*" and etag not in [tag.strip() for tag in wanted.split(",")]:
        raise Problem(412, "PreconditionFailed", "At least one of the preconditions did not hold")


def read_object(request: Request, stored: StoredObject, etag: str, range_header: str) -> Response:
    """The response to GET and HEAD of an object: 200 or 206. Raises Problem(412) and Problem(416)."""
    check_tags(request, etag)
    headers = {
        "Content-Type": "application/octet-stream",
        "ETag": etag,
        "Last-Modified": formatdate(stored.modified, usegmt=True),
        "Accept-Ranges": "bytes",
    }
    span = asked_range(range_header, len(stored.data))
    if span is None:
        return Response(200, headers, stored.data, whole=stored.data)
    first, last = span
    headers["Content-Range"] = f"bytes {first}-{last}/{len(stored.data)}"
    return Response(206, headers, memoryview(stored.data)[first : last + 1], whole=stored.data)
