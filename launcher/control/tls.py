"""The dial-back transport: a control line over TLS, for engines and --no_ssh.

The runner makes a certificate for each job. An engine delivers its SHA-256 in the node launcher's
command, so the node can verify the runner. How the runner verifies the node is in `auth.py`.
"""

from __future__ import annotations

import hashlib
import os
import socket
import ssl

from .stream import READ_SIZE, FrameStream

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence


class TlsStream(FrameStream):
    """A frame stream over one TLS connection whose handshake is done."""

    def __init__(self, connection: ssl.SSLSocket) -> None:
        self._connection = connection
        super().__init__(connection.fileno(), connection.fileno())

    def close(self) -> None:
        """Close the connection; may be called twice."""
        self.read_fd = self.write_fd = -1
        self._connection.close()

    def _read(self) -> bytes:
        """Read all decrypted bytes: poll(2) does not report those inside the TLS object."""
        parts: list[bytes] = []
        while sum(map(len, parts)) < READ_SIZE:
            try:
                part = self._connection.recv(READ_SIZE)
            except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
                break
            except ssl.SSLError as error:
                raise ConnectionResetError(error.errno or 0, f"TLS: {error.reason}") from None
            parts.append(part)
            if not part:
                break
        if not parts:
            raise BlockingIOError
        return b"".join(parts)

    def _write(self, data: bytes) -> int:
        try:
            return self._connection.send(data)
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            raise BlockingIOError from None
        except ssl.SSLError as error:
            raise ConnectionResetError(error.errno or 0, f"TLS: {error.reason}") from None


def fingerprint(certificate: bytes) -> str:
    """Return the SHA-256 of a DER certificate, in hex."""
    return hashlib.sha256(certificate).hexdigest()


def client_context() -> ssl.SSLContext:
    """Return a context that accepts any certificate; its fingerprint is checked instead."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    return context


HUNG_UP = (ConnectionError, TimeoutError, ssl.SSLEOFError, ssl.SSLZeroReturnError)


class CannotDial(Exception):
    """The runner could not be reached at any address; the text has the reason for each.

    Attributes:
        dropped: whether a connection was accepted but closed, or timed out, in the handshake, as
            the runner does while too many others connect to its port.
    """

    def __init__(self, message: str, *, dropped: bool) -> None:
        super().__init__(message)
        self.dropped = dropped


def dial(addresses: Sequence[str], port: int, pin: str, seconds: float) -> tuple[TlsStream, str]:
    """Connect to the runner at the first address where it answers.

    Args:
        addresses: the addresses of the runner, in the order to try.
        port: the runner's port, on every address.
        pin: SHA-256 of the runner's certificate in hex; "" if the runner is verified in another
            way.
        seconds: timeout for each address.

    Returns:
        the stream, and the fingerprint of the received certificate.

    Raises:
        CannotDial: the runner does not answer at any address.
    """
    reasons, dropped = [], False
    for address in addresses:
        shaking = False
        try:
            plain = socket.create_connection((address, port), timeout=seconds)
            shaking = True
            return _shake_hands(plain, pin)
        except (OSError, UnicodeError) as error:
            reasons.append(f"{address}:{port}: {getattr(error, 'strerror', None) or error}")
            dropped = dropped or (shaking and isinstance(error, HUNG_UP))
    raise CannotDial("cannot reach the runner at " + "; ".join(reasons), dropped=dropped)


def _shake_hands(plain: socket.socket, pin: str) -> tuple[TlsStream, str]:
    try:
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        secure = client_context().wrap_socket(plain)
    except OSError:
        plain.close()
        raise
    seen = fingerprint(secure.getpeercert(binary_form=True) or b"")
    if pin and seen != pin:
        secure.close()
        raise OSError(0, "another program answered there (its certificate is not the runner's)")
    secure.setblocking(False)
    return TlsStream(secure), seen


def make_certificate() -> tuple[ssl.SSLContext, str]:
    """Return a server context with a certificate made for this job, and its fingerprint."""
    # `cryptography` comes with paramiko; 0.1 s to import, so only where this transport is used.
    from datetime import datetime, timedelta, timezone

    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "dsrun")])
    now = datetime.now(timezone.utc)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=365))
        .not_valid_after(now + timedelta(days=3650))
        .sign(key, hashes.SHA256())
    )
    pem = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    context = _server_context(made.public_bytes(serialization.Encoding.PEM) + pem)
    return context, fingerprint(made.public_bytes(serialization.Encoding.DER))


def _server_context(pem: bytes) -> ssl.SSLContext:
    """Load certificate and key from a memfd, which no other user can open."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.num_tickets = 0
    fd = os.memfd_create("dsrun")
    try:
        os.write(fd, pem)
        context.load_cert_chain(f"/proc/self/fd/{fd}")
    finally:
        os.close(fd)
    return context
