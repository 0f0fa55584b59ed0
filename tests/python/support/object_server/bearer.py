# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Tokens that a request carries as they are."""

from .credentials import Credentials
from .messages import Problem, Request


def check_bearer(request: Request, credentials: Credentials, code: str) -> None:
    """Raises Problem(401, code) unless the request carries a token that the server knows."""
    scheme, _, token = request.header("authorization").partition(" ")
    grant = credentials.known("bearer", token) if scheme == "Bearer" else None
    wanted = {"WWW-Authenticate": 'Bearer realm="rig"'}
    if grant is None:
        raise Problem(401, code, "Invalid credentials", wanted)
    credentials.use(grant, Problem(401, code, "The token has expired", wanted))
