# Copyright the torch_distinput authors. SPDX-License-Identifier: Apache-2.0
"""Certificates that are made for a test."""

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest


@dataclass
class Certificate:
    """`chain`: a PEM file with the key and the certificate, for a server. `authority`: that certificate alone, for the
    clients that shall trust it: SSL_CERT_FILE."""

    chain: str
    authority: str


def make_certificate(folder: Path) -> Certificate:
    """A certificate, signed by itself, for a day and this machine's names. Skips the test where there is no openssl."""
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("openssl is not installed")
    key, certificate, chain = (folder / name for name in ("key.pem", "authority.pem", "chain.pem"))
    names = "subjectAltName=DNS:localhost,DNS:*.localhost,IP:127.0.0.1"
    options = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "1"]
    files = ["-keyout", str(key), "-out", str(certificate)]
    command = [openssl, "req", "-x509", *options, "-subj", "/CN=localhost", "-addext", names, *files]
    subprocess.run(command, check=True, capture_output=True, timeout=20)
    chain.write_bytes(key.read_bytes() + certificate.read_bytes())
    return Certificate(str(chain), str(certificate))
