# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Credentials from the clouds' own libraries, where these are installed: for single sign-on, roles of instances and
pods, processes that print credentials, and managed identities. Native code reads options, variables and files."""

import calendar
import functools
import os
import time
from collections.abc import Callable
from typing import Any

# botocore renews what it has by itself: it is asked again so often, in seconds. Native code asks 300 s early.
_ASK_AGAIN = 900 + 300


def find_credentials(url: str) -> dict[str, str]:
    """Credentials for a URL, by the names of `storage_options`; none where no library has any."""
    find = _LIBRARIES.get(url.partition("://")[0].lower())
    if find is None:
        return {}
    try:
        return find(os.getpid())
    except ImportError:
        return {}


def _aws(process: int) -> dict[str, str]:
    credentials = _aws_session(process).get_credentials()
    if credentials is None:
        return {}
    keys = credentials.get_frozen_credentials()
    expires = str(int(time.time()) + _ASK_AGAIN)
    return {
        "key": keys.access_key,
        "secret": keys.secret_key,
        "session_token": keys.token or "",
        "expires": expires,
    }


# One for each process: a forked child has the locks of its parent's, but not its threads.
@functools.cache
def _aws_session(process: int) -> Any:
    import botocore.session

    return botocore.session.get_session()


def _google(process: int) -> dict[str, str]:
    from google.auth.exceptions import DefaultCredentialsError
    from google.auth.transport.requests import Request

    try:
        credentials = _google_credentials(process)
    except DefaultCredentialsError:
        return {}
    credentials.refresh(Request())
    found = {"token": credentials.token}
    if credentials.expiry is not None:
        found["expires"] = str(calendar.timegm(credentials.expiry.utctimetuple()))
    return found


@functools.cache
def _google_credentials(process: int) -> Any:
    import google.auth

    scope = "https://www.googleapis.com/auth/devstorage.read_write"
    return google.auth.default(scopes=[scope])[0]


def _azure(process: int) -> dict[str, str]:
    from azure.core.exceptions import ClientAuthenticationError

    try:
        token = _azure_credential(process).get_token("https://storage.azure.com/.default")
    except ClientAuthenticationError:
        return {}
    return {"token": token.token, "expires": str(token.expires_on)}


@functools.cache
def _azure_credential(process: int) -> Any:
    from azure.identity import DefaultAzureCredential

    return DefaultAzureCredential()


_LIBRARIES: dict[str, Callable[[int], dict[str, str]]] = {"s3": _aws, "gs": _google, "az": _azure}
