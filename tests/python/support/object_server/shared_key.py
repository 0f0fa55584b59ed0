# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Checks Azure's SharedKey signatures, by the words of "Authorize with Shared Key"."""

import base64
import hmac
from email.utils import parsedate_to_datetime

from .credentials import Credentials
from .messages import Problem, Request

MAX_SKEW = 15 * 60
REFUSED = "Server failed to authenticate the request. Make sure the Authorization header is formed correctly."
STANDARD_HEADERS = (
    "content-encoding",
    "content-language",
    "content-length",
    "content-md5",
    "content-type",
    "date",
    "if-modified-since",
    "if-match",
    "if-none-match",
    "if-unmodified-since",
    "range",
)


def refused(text: str, headers: dict[str, str] | None = None) -> Problem:
    return Problem(403, "AuthenticationFailed", f"{REFUSED}\n{text}", headers)


def check_shared_key(request: Request, credentials: Credentials, account: str) -> None:
    """Raises Problem as the service does."""
    name, _, signature = request.header("authorization").removeprefix("SharedKey ").partition(":")
    grant = credentials.known("azure", name)
    if grant is None or name != account:
        raise refused("The account is not known.")
    if not request.header("x-ms-version"):
        raise Problem(400, "MissingRequiredHeader", "x-ms-version is missing")
    _check_time(request, credentials.now())
    text = _string_to_sign(request, account)
    right = base64.b64encode(hmac.digest(base64.b64decode(grant.secret), text.encode(), "sha256")).decode()
    if not hmac.compare_digest(right, signature):
        raise refused(f"The MAC signature found is not the same as any computed one. Server used: {text!r}")
    credentials.use(grant, refused("The key has expired."))


def _check_time(request: Request, now: float) -> None:
    try:
        sent = parsedate_to_datetime(request.header("x-ms-date") or request.header("date")).timestamp()
    except (ValueError, TypeError):
        raise refused("Neither Date nor x-ms-date is a date.") from None
    if abs(now - sent) > MAX_SKEW:
        raise refused("The date header is too old or too new.")


def _string_to_sign(request: Request, account: str) -> str:
    values = {name: request.header(name) for name in STANDARD_HEADERS}
    if values["content-length"] == "0":
        values["content-length"] = ""
    if request.header("x-ms-date"):
        values["date"] = ""
    own = sorted(name for name in request.lower if name.startswith("x-ms-"))
    headers = "".join(f"{name}:{' '.join(request.header(name).split())}\n" for name in own)
    return "\n".join([request.method, *values.values(), headers]) + _resource(request, account)


def _resource(request: Request, account: str) -> str:
    values: dict[str, list[str]] = {}
    for name, value in request.pairs:
        values.setdefault(name.lower(), []).append(value)
    query = "".join(f"\n{name}:{','.join(sorted(values[name]))}" for name in sorted(values))
    return f"/{account}{request.raw_path}{query}"
