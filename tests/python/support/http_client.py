# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""`http.client` in few words, for tests of servers."""

import http.client
from urllib.parse import urlsplit


class Client:
    """One connection to the server at `url`; a new one after each that ended."""

    def __init__(self, url, timeout=10):
        self.connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=timeout)

    def ask(self, path, method="GET", body=None, **headers):
        """The response, not yet read. An underscore in a header's name is a dash."""
        names = {name.replace("_", "-"): value for name, value in headers.items()}
        self.connection.request(method, path, body=body, headers=names)
        return self.connection.getresponse()

    def get(self, path, **headers):
        """Status, headers and body."""
        response = self.ask(path, **headers)
        return response.status, response.headers, response.read()

    def close(self):
        self.connection.close()
