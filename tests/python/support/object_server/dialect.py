# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""What the dialects of stores have in common."""

from abc import ABC, abstractmethod
from dataclasses import dataclass

from .credentials import Credentials
from .messages import Problem, Request, Response
from .objects import Objects, StoredObject


@dataclass
class Store:
    """What all dialects of a server answer from."""

    objects: Objects
    credentials: Credentials
    addresses: dict[str, str]  # by dialect, without a slash at the end


@dataclass
class Call:
    """What a request is about, as far as its line and Host say."""

    operation: str  # see request_log.Entry
    object: str = ""


class Dialect(ABC):
    """Speaks for the objects of a store over one port."""

    name: str

    def __init__(self, store: Store):
        self.objects = store.objects
        self.credentials = store.credentials
        self.addresses = store.addresses

    @abstractmethod
    def locate(self, request: Request) -> Call:
        """Without looking at credentials."""

    @abstractmethod
    def answer(self, request: Request, call: Call) -> Response:
        """Raises Problem."""

    @abstractmethod
    def error(self, request: Request, problem: Problem) -> Response: ...

    def range_header(self, request: Request) -> str:
        return request.header("range")

    def stored(self, name: str, code: str = "NotFound") -> StoredObject:
        stored = self.objects.get(name)
        if stored is None:
            raise Problem(404, code, "The specified object does not exist.")
        return stored
