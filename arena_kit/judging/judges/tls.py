"""The TLS context that clients of paid services share."""

from __future__ import annotations

import os
import ssl
from functools import lru_cache

import httpx2


def tls_context() -> ssl.SSLContext:
    """What verifies certificates, as httpx makes it: once a process, for reading all certificates
    takes longer than many a call; anew where the variables that name certificates have changed.
    """
    return _made(os.environ.get("SSL_CERT_FILE"), os.environ.get("SSL_CERT_DIR"))


@lru_cache(maxsize=1)
def _made(_file: str | None, _folder: str | None) -> ssl.SSLContext:
    return httpx2.create_ssl_context()
