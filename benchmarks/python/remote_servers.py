# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""The servers of the remote benchmark, all of this machine: nginx, and a helper that makes it late.

One nginx serves a folder at several ports: as it is, over TLS, with status 503 for every hundredth request, and late:
one request in fifty waits before its first byte. The first one answers S3's lists, too, from files in the folder
`lists`: that with the name of the prefix, as it is in the query, or `none`.
"""

import contextlib
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

# The beginning of a configuration; `{late}` is the port of the helper.
_NGINX = """
daemon off; {user} worker_processes 1; pid {folder}/pid; error_log {folder}/errors;
events {{ worker_connections 4096; }}
http {{
  access_log off; sendfile on; tcp_nodelay on; keepalive_requests 100000000; max_ranges 1;
  client_body_temp_path {folder}/t1; proxy_temp_path {folder}/t2; fastcgi_temp_path {folder}/t3;
  uwsgi_temp_path {folder}/t4; scgi_temp_path {folder}/t5; root {data};
  split_clients $request_id $fails {{ 1% 1; * ""; }}
  split_clients $request_id $waits {{ 2% 1; * ""; }}
  map $args $prefix {{ ~prefix=([^&]*) $1; }}
  server {{
    listen 127.0.0.1:{plain};
    location ~ ^/[^/]*/?$ {{ if ($prefix) {{ rewrite ^ /lists/$prefix? last; }} }}
    location /lists/ {{ internal; error_page 404 =200 /lists/none; }}
  }}
  server {{ listen 127.0.0.1:{tls} ssl; ssl_certificate {chain}; ssl_certificate_key {chain}; }}
  server {{ listen 127.0.0.1:{failing}; if ($fails) {{ return 503; }} }}
  server {{
    listen 127.0.0.1:{late};
    location / {{ if ($waits) {{ rewrite ^ /late$uri last; }} }}
    location /late/ {{ internal; proxy_pass http://127.0.0.1:{helper}; proxy_pass_request_body off; }}
    location /again/ {{ internal; alias {data}/; }}
  }}
}}
"""
# Answers after a while that nginx shall send the file.
_LATE = """
import http.server, socket, sys, time
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        time.sleep(float(sys.argv[1]))
        self.send_response(200)
        self.send_header("X-Accel-Redirect", self.path.replace("/late/", "/again/", 1))
        self.end_headers()
    def log_message(self, *_): pass
class Server(http.server.ThreadingHTTPServer):
    request_queue_size = 512
server = Server(("127.0.0.1", 0), Handler)
print(server.server_port, flush=True)
server.serve_forever()
"""
# Ends with its parent (PR_SET_PDEATHSIG).
_WATCHED = "import ctypes, os, sys; ctypes.CDLL(None).prctl(1, 15); os.execvp(sys.argv[1], sys.argv[1:])"


@dataclass(frozen=True)
class Servers:
    """URLs of the same folder `data`. `authority`: the certificate that clients of `tls` trust."""

    data: Path
    plain: str
    tls: str
    failing: str
    late: str
    authority: Path
    worker: int  # process id of nginx's worker


@contextlib.contextmanager
def serve(folder: Path, lateness: float) -> Iterator[Servers]:
    """`lateness`: seconds before the first byte of a late answer."""
    data = folder / "data"
    data.mkdir()
    chain, authority = _certificate(folder)
    names = ("plain", "tls", "failing", "late")
    with contextlib.ExitStack() as stack:
        listeners = {name: stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=512)) for name in names}
        ports = {name: listener.getsockname()[1] for name, listener in listeners.items()}
        helper = stack.enter_context(_started([sys.executable, "-S", "-c", _LATE, str(lateness)]))
        user = "user root;" if os.getuid() == 0 else ""
        configuration = _NGINX.format(
            folder=folder, data=data, user=user, chain=chain, helper=int(helper.stdout.readline()), **ports
        )
        (folder / "conf").write_text(configuration)
        descriptors = tuple(listener.fileno() for listener in listeners.values())
        nginx = shutil.which("nginx", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
        if nginx is None:
            raise SystemExit("remote.py: nginx is not installed")
        command = [nginx, "-p", str(folder), "-e", str(folder / "errors"), "-c", str(folder / "conf")]
        # It takes the sockets over, so that nobody else can have the ports in between.
        inherited = {"NGINX": ";".join(map(str, descriptors)) + ";"}
        process = stack.enter_context(_started(command, inherited, descriptors))
        urls = {name: f"http{'s' if name == 'tls' else ''}://127.0.0.1:{port}" for name, port in ports.items()}
        yield Servers(data=data, authority=authority, worker=_child_of(process.pid), **urls)


def _child_of(pid: int) -> int:
    path = Path(f"/proc/{pid}/task/{pid}/children")
    limit = time.monotonic() + 10
    while not (found := path.read_text().split()):
        if time.monotonic() > limit:
            raise SystemExit("remote.py: nginx does not start")
        time.sleep(0.01)
    return int(found[0])


def _certificate(folder: Path) -> tuple[Path, Path]:
    key, certificate, chain = (folder / name for name in ("key.pem", "authority.pem", "chain.pem"))
    options = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"]
    named = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"]
    command = ["openssl", "req", "-x509", *options, *named, "-keyout", key, "-out", certificate]
    subprocess.run(command, check=True, capture_output=True)
    chain.write_bytes(key.read_bytes() + certificate.read_bytes())
    return chain, certificate


@contextlib.contextmanager
def _started(
    command: list[str], environment: dict[str, str] | None = None, pass_fds: tuple[int, ...] = ()
) -> Iterator[subprocess.Popen]:
    watched = [sys.executable, "-S", "-c", _WATCHED, *command]
    variables = os.environ | (environment or {})
    process = subprocess.Popen(watched, stdout=subprocess.PIPE, text=True, env=variables, pass_fds=pass_fds)
    try:
        yield process
    finally:
        process.terminate()
        process.wait(10)
        process.stdout.close()
