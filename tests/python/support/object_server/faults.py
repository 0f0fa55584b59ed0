# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Faults that a test has asked for: which requests they hit, and what they do to the response."""

import dataclasses
import random
import threading
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

from .messages import Problem, Response
from .objects import Objects
from .request_log import Entry


@dataclass
class Fault:
    """What happens to one request. Places are bytes of the body, times seconds."""

    # Instead of the response
    status: int | None = None  # an error, in the dialect's form
    code: str = "Scripted"  # that error's code
    retry_after: int | str | None = None
    redirect: str | None = None  # another address; "self" for the request's own
    redirect_status: int = 301
    garbage: str | None = None  # bytes (as latin-1) instead of HTTP, then the end
    drop: bool = False  # the connection ends without a byte
    # Before the response
    replace: bytes | None = None  # the object is replaced before it is read
    first_byte_delay: float = 0.0
    # The head
    headers: dict[str, str] = field(default_factory=dict)  # these values instead, or besides
    without: list[str] = field(default_factory=list)  # names of headers that are left out
    length_error: int = 0  # is added to Content-Length
    whole: bool = False  # 200 with the whole object instead of 206
    partial_as_200: bool = False  # 200 with the right part and Content-Range
    # The body
    text: str | None = None  # these bytes (as latin-1) instead
    corrupt: int | None = None  # the byte here is another one
    reset_after: int | None = None  # a TCP reset after so many bytes
    half_close_after: int | None = None  # sends no more after so many bytes, but the connection stays
    stall_after: int | None = None  # no byte for `stall` after so many bytes
    stall: float = 3600.0
    trickle: float | None = None  # bytes a second
    # After the response
    close: bool = False  # the connection ends, without a word before

    def names(self) -> list[str]:
        return [each.name for each in dataclasses.fields(self) if getattr(self, each.name) != _default(each)]

    def refuse(self) -> None:
        """Raises the error that is sent instead of the response, if there is one."""
        if self.status is not None:
            headers = {} if self.retry_after is None else {"Retry-After": str(self.retry_after)}
            raise Problem(self.status, self.code, "A scripted fault", headers)

    def redirected(self, address: str) -> Response | None:
        """The response that leads elsewhere, if one does. `address` is the request's own."""
        if self.redirect is None:
            return None
        return Response(self.redirect_status, {"Location": address if self.redirect == "self" else self.redirect})

    def alter(self, response: Response) -> None:
        """Changes the head and the body."""
        if self.whole and response.whole is not None:
            response.body = response.whole
        if (self.whole or self.partial_as_200) and response.status == 206:
            response.status = 200
        if self.whole:
            response.headers.pop("Content-Range", None)
        response.headers.update(self.headers)
        for name in self.without:
            response.headers.pop(name, None)
        if self.text is not None:
            response.body = self.text.encode("latin-1")
        if self.corrupt is not None and self.corrupt < len(response.body):
            response.body = bytearray(response.body)
            response.body[self.corrupt] ^= 0xFF


def _default(each: dataclasses.Field) -> object:
    return each.default if each.default_factory is dataclasses.MISSING else each.default_factory()


@dataclass
class Rule:
    """Which requests a fault hits: those that everything given here is true of."""

    fault: Fault
    dialect: str | None = None
    operation: str | None = None
    method: str | None = None
    object: str | None = None  # a pattern as of a shell
    covers: int | None = None  # a byte of the object that the request asks for
    # Of the requests that all above is true of, counted from 1:
    nth: int | list[int] | None = None
    first: int | None = None  # the first so many
    after: int | None = None  # all after so many
    probability: float | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        self._count = 0
        self._random = random.Random(self.seed)

    def hits(self, entry: Entry) -> bool:
        if not self._is_about(entry):
            return False
        self._count += 1
        drawn = self._random.random()
        return (
            (self.nth is None or self._count in ([self.nth] if isinstance(self.nth, int) else self.nth))
            and (self.first is None or self._count <= self.first)
            and (self.after is None or self._count > self.after)
            and (self.probability is None or drawn < self.probability)
        )

    def _is_about(self, entry: Entry) -> bool:
        return (
            self.dialect in (None, entry.dialect)
            and self.operation in (None, entry.operation)
            and self.method in (None, entry.method)
            and (self.object is None or fnmatchcase(entry.object, self.object))
            and (self.covers is None or entry.range is None or entry.range[0] <= self.covers <= entry.range[1])
        )


class Faults:
    """The rules, all of which count each request; those that hit it are put together, later ones over earlier ones.
    Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._rules: list[Rule] = []

    def add(self, which: dict, what: dict) -> None:
        rule = Rule(Fault(**what), **which)
        with self._lock:
            self._rules.append(rule)

    def clear(self) -> None:
        with self._lock:
            self._rules.clear()

    def of(self, entry: Entry, objects: Objects) -> Fault:
        """The fault of a request, and replaces its object if the fault says so."""
        with self._lock:
            hit = [rule.fault for rule in self._rules if rule.hits(entry)]
        together = {name: getattr(fault, name) for fault in hit for name in fault.names()}
        fault = Fault(**together)
        entry.faults = fault.names()
        if fault.replace is not None:
            objects.put(entry.object, fault.replace)
        return fault
