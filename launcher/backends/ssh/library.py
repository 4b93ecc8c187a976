"""paramiko, without warnings at its import.

Older versions (3.2 to 3.5) name ciphers that newer versions of cryptography have moved. A warning
about this appears on standard error, but users of dsrun cannot change anything about it.
"""

from __future__ import annotations

import warnings

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import paramiko
    from paramiko import Channel
    from paramiko.auth_strategy import AuthStrategy, InMemoryPrivateKey

__all__ = ["AuthStrategy", "Channel", "InMemoryPrivateKey", "paramiko"]
