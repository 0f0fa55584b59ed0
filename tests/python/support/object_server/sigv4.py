# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Checks AWS Signature Version 4, of headers and of queries, by the words of its specification."""

import hashlib
import hmac
import re
from calendar import timegm
from dataclasses import dataclass
from time import strptime
from urllib.parse import quote, unquote_to_bytes

from .credentials import Credentials, Grant
from .messages import Problem, Request

MAX_SKEW = 15 * 60
UNSIGNED = ("UNSIGNED-PAYLOAD", "STREAMING-UNSIGNED-PAYLOAD-TRAILER")

_AUTHORIZATION = re.compile(
    r"AWS4-HMAC-SHA256 Credential=([^/,]+)/(\d{8})/([^/,]+)/([^/,]+)/aws4_request, ?"
    r"SignedHeaders=([a-z0-9;_-]+), ?Signature=([0-9a-f]{64})"
)


@dataclass
class _Claim:
    """What a request says about its own signature."""

    key: str
    day: str
    region: str
    service: str
    signed_headers: list[str]
    signature: str
    time: str  # 20260131T235959Z
    payload: str
    session_token: str
    lifetime: float | None  # seconds, of a signature in the query

    @property
    def scope(self) -> str:
        return f"{self.day}/{self.region}/{self.service}/aws4_request"


def check_signature(request: Request, credentials: Credentials, region: str, service: str = "s3") -> None:
    """Raises Problem with the code that S3 gives."""
    claim = _claim_of_query(request) if "X-Amz-Signature" in request.query else _claim_of_headers(request)
    grant = credentials.known("s3", claim.key)
    if grant is None:
        raise Problem(403, "InvalidAccessKeyId", "The AWS Access Key Id you provided does not exist in our records.")
    _check_time(claim, credentials.now())
    if (claim.region, claim.service) != (region, service):
        raise Problem(
            400, "AuthorizationHeaderMalformed", f"the region '{claim.region}' is wrong; expecting '{region}'"
        )
    _check_signed_headers(request, claim)
    if not hmac.compare_digest(claim.signature, _signature(request, claim, grant)):
        raise Problem(403, "SignatureDoesNotMatch", "The request signature we calculated does not match.")
    _check_payload(request, claim)
    if claim.session_token != grant.session_token:
        raise Problem(400, "InvalidToken", "The provided token is malformed or otherwise invalid.")
    credentials.use(grant, Problem(400, "ExpiredToken", "The provided token has expired."))


def _claim_of_headers(request: Request) -> _Claim:
    if not request.header("authorization"):
        raise Problem(403, "AccessDenied", "Access Denied")
    match = _AUTHORIZATION.fullmatch(request.header("authorization"))
    if not match:
        raise Problem(400, "AuthorizationHeaderMalformed", "The authorization header is malformed.")
    key, day, region, service, names, signature = match.groups()
    payload = request.header("x-amz-content-sha256")
    if not payload:
        raise Problem(400, "InvalidRequest", "Missing required header for this request: x-amz-content-sha256")
    time, token = request.header("x-amz-date"), request.header("x-amz-security-token")
    return _Claim(key, day, region, service, names.split(";"), signature, time, payload, token, None)


def _claim_of_query(request: Request) -> _Claim:
    query = request.query
    key, *scope = query.get("X-Amz-Credential", "").split("/")
    lifetime = query.get("X-Amz-Expires", "")
    if query.get("X-Amz-Algorithm") != "AWS4-HMAC-SHA256" or len(scope) != 4 or not lifetime.isdecimal():
        raise Problem(400, "AuthorizationQueryParametersError", "The query's signature is malformed.")
    return _Claim(
        key,
        *scope[:3],
        query.get("X-Amz-SignedHeaders", "").split(";"),
        query["X-Amz-Signature"],
        query.get("X-Amz-Date", ""),
        "UNSIGNED-PAYLOAD",
        query.get("X-Amz-Security-Token", ""),
        float(lifetime),
    )


def _check_time(claim: _Claim, now: float) -> None:
    try:
        signed_at = timegm(strptime(claim.time, "%Y%m%dT%H%M%SZ"))
    except ValueError:
        raise Problem(403, "AccessDenied", "AWS authentication requires a valid Date or x-amz-date header") from None
    if claim.time[:8] != claim.day:
        raise Problem(403, "SignatureDoesNotMatch", "The scope's date is not that of x-amz-date.")
    if claim.lifetime is None and abs(now - signed_at) > MAX_SKEW or signed_at - now > MAX_SKEW:
        text = "The difference between the request time and the current time is too large."
        raise Problem(403, "RequestTimeTooSkewed", text)
    if claim.lifetime is not None and now > signed_at + claim.lifetime:
        raise Problem(403, "AccessDenied", "Request has expired")


def _check_signed_headers(request: Request, claim: _Claim) -> None:
    names = claim.signed_headers
    if names != sorted(names):
        raise Problem(403, "SignatureDoesNotMatch", "SignedHeaders must be sorted.")
    needed = {"host", *(name for name in request.lower if name.startswith("x-amz-"))}
    if missing := needed - set(names):
        text = f"There were headers present in the request which were not signed: {sorted(missing)}"
        raise Problem(403, "AccessDenied", text)


def _check_payload(request: Request, claim: _Claim) -> None:
    if claim.payload not in UNSIGNED and claim.payload != hashlib.sha256(request.body).hexdigest():
        raise Problem(400, "XAmzContentSHA256Mismatch", "The provided 'x-amz-content-sha256' header does not match.")


def _signature(request: Request, claim: _Claim, grant: Grant) -> str:
    digest = hashlib.sha256(_canonical_request(request, claim).encode()).hexdigest()
    key = b"AWS4" + grant.secret.encode()
    for part in claim.scope.split("/"):
        key = hmac.digest(key, part.encode(), "sha256")
    to_sign = f"AWS4-HMAC-SHA256\n{claim.time}\n{claim.scope}\n{digest}"
    return hmac.digest(key, to_sign.encode(), "sha256").hex()


def _canonical_request(request: Request, claim: _Claim) -> str:
    headers = "".join(f"{name}:{' '.join(request.header(name).split())}\n" for name in claim.signed_headers)
    return "\n".join(
        (
            request.method,
            quote(unquote_to_bytes(request.raw_path), safe="/~"),
            _canonical_query(request.raw_query),
            headers,
            ";".join(claim.signed_headers),
            claim.payload,
        )
    )


def _canonical_query(raw: str) -> str:
    pairs = []
    for pair in filter(None, raw.split("&")):
        name, _, value = pair.partition("=")
        if name != "X-Amz-Signature":
            pairs.append("=".join(quote(unquote_to_bytes(part.replace("+", " ")), safe="~") for part in (name, value)))
    return "&".join(sorted(pairs, key=lambda pair: pair.split("=")))
