"""paramiko, without warnings at its import.

Older versions (3.2 to 3.5) name ciphers that newer versions of cryptography have moved, which is
said on standard error, and is nothing that a user of dsrun can change.
"""

from __future__ import annotations

import warnings

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import paramiko
    from paramiko import Channel
    from paramiko.auth_strategy import AuthStrategy, InMemoryPrivateKey

__all__ = ["AuthStrategy", "Channel", "InMemoryPrivateKey", "paramiko"]
