# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Objects over HTTP as any web server has them: open to all."""

from .dialect import Call, Dialect
from .messages import Problem, Request, Response
from .ranges import read_object


class Plain(Dialect):
    name = "http"

    def locate(self, request: Request) -> Call:
        return Call("read" if request.method in ("GET", "HEAD") else "unknown", request.path.removeprefix("/"))

    def answer(self, request: Request, call: Call) -> Response:
        if call.operation != "read":
            raise Problem(405, "MethodNotAllowed", "GET and HEAD only", {"Allow": "GET, HEAD"})
        stored = self.stored(call.object)
        return read_object(request, stored, stored.etag, self.range_header(request))

    def error(self, request: Request, problem: Problem) -> Response:
        text = f"{problem.status} {problem.code}: {problem.text}\n"
        return Response(problem.status, {"Content-Type": "text/plain", **problem.headers}, text.encode())
