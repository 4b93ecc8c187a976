"""Failures of connections: between the ranks, to their store, and to services."""

from __future__ import annotations

from ...specs.verdict import FailureClass, Retry
from .row import Row, said

NETWORK, NODE, SCRIPT, DATA = (
    FailureClass.NETWORK,
    FailureClass.NODE,
    FailureClass.SCRIPT,
    FailureClass.DATA,
)
YES, NO, PERHAPS = Retry.YES, Retry.NO, Retry.UNKNOWN

SEE_STACKS = "look at the rank that did not come; dsrun-job stacks shows where all are"
SAME_CALLS = "TORCH_DISTRIBUTED_DEBUG=DETAIL shows which rank calls what"
SEE_LINKS = "dsrun-check shows whether the nodes reach each other"
ANOTHER_PORT = "end that program, or choose another port"

_IN_USE = said(
    "EADDRINUSE",
    "Address already in use",
    "address already in use",
    "Failed to bind to address ",
)

PORT_ROWS = (
    Row(
        "port-in-use",
        NODE,
        PERHAPS,
        said=_IN_USE,
        pattern=r"(?:\bport:? |tcp://[^\s']{0,99}:|\('[^'\n]{0,99}', |\[[\w:.]{0,99}\]:"
        r"|\b\d{1,3}\.\d{1,3}\.\d{1,3}\.\d{1,3}:)(?P<port>\d{2,5})\b",
        sentence="port {port} is in use",
        advice=ANOTHER_PORT,
        finds="port",
    ),
    Row(
        "port-in-use",
        NODE,
        PERHAPS,
        _IN_USE,
        "a port that the program listens on is in use",
        ANOTHER_PORT,
        finds="port",
    ),
    Row(
        "address-foreign",
        NETWORK,
        NO,
        said("Cannot assign requested address", "EADDRNOTAVAIL", "No such device (addr="),
        "the program listens at an address or interface that this node does not have",
        "give it one of this node's; dsrun-check shows the interfaces",
    ),
)

RANK_ROWS = (
    Row(
        "gloo-timeout",
        said=said("Timed out waiting"),
        pattern=r"Timed out waiting (?P<ms>\d+)ms for (?P<what>send|recv) operation",
        sentence="a {what} between two ranks has timed out after {ms} ms:"
        " another rank did not take part in the collective",
        advice=SEE_STACKS,
        echo=True,
    ),
    Row(
        "barrier-timeout",
        said=said("failed to pass monitoredBarrier"),
        pattern=r"Ranks? (?P<who>[\d, ]+) failed to pass monitoredBarrier in (?P<ms>\d+) ms",
        sentence="a barrier has timed out after {ms} ms: rank {who} did not come",
        advice=SEE_STACKS,
        echo=True,
    ),
    Row(
        "ranks-missing",
        said=said(
            "waiting for clients",
            "in store based barrier",
            "wait timeout after",
            "Socket Timeout",
            "wait() got timeout",
            "DEADLINE_EXCEEDED: Barrier timed out",
        ),
        sentence="the ranks have not all come to the store within its time limit",
        advice=SEE_STACKS,
        echo=True,
    ),
    Row(
        "gloo-no-connection",
        NETWORK,
        YES,
        said("connectFullMesh failed", "Connect timeout ["),
        "gloo could not connect the ranks",
        SEE_LINKS + "; GLOO_SOCKET_IFNAME names the interface",
        echo=True,
    ),
    Row(
        "gloo-mismatch",
        SCRIPT,
        NO,
        said("op.preamble.length <= op.nbytes"),
        "the ranks do not call the same collective, or with different sizes:"
        " {sent} bytes were sent where {wanted} were expected",
        SAME_CALLS,
        pattern=r"op\.preamble\.length <= op\.nbytes\. (?P<sent>\d+) vs (?P<wanted>\d+)",
    ),
    Row(
        "gloo-mismatch",
        SCRIPT,
        NO,
        said(
            "gloo::EnforceNotMet",
            "Is there a distributed collective mismatch",
            "op.preamble.",
        ),
        "the ranks do not call the same collective, or with different sizes",
        SAME_CALLS,
        pattern=r"collective mismatch|op\.preamble\.",
    ),
    Row(
        "gloo-no-interface",
        NETWORK,
        NO,
        said("Unable to find address for", "unsupported gloo device", "Unable to find interface"),
        "gloo found no such network interface",
        "look at GLOO_SOCKET_IFNAME; dsrun-check shows the interfaces",
    ),
    Row(
        "rank-closed",
        NETWORK,
        YES,
        said("Connection closed by peer", "Connection reset by peer [", "gloo/transport"),
        "its connection to another rank has ended",
        SEE_LINKS,
        # gloo's path is in all its errors.
        pattern=r"Connection (?:closed|reset|refused|aborted|timed out)|Broken pipe|Socket closed"
        r"|No route to host|Network is unreachable|(?:Read|Write) error",
        echo=True,
    ),
    Row(
        "store-closed",
        NETWORK,
        YES,
        said(
            "failed to recv, got 0 bytes",
            "The client socket has timed out",
            "The client socket has failed to connect",
            "Failed to recv, got",
            "sendBytes failed on",
            "recvBytes failed on",
            "recvValue failed on",
            "recvVector failed on",
            "The connection to the C10d store has failed",
        ),
        "its connection to the store of rank 0 has ended, or was never made",
        SEE_LINKS,
        echo=True,
    ),
    Row(
        "store-closed",
        NETWORK,
        YES,
        said("Connection reset by peer", "Broken pipe"),
        "its connection to the store of rank 0 has ended, or was never made",
        SEE_LINKS,
        pattern=r"\((rendezvous|distributed_c10d|TCPStore|c10d_rendezvous_backend)\.py:",
        echo=True,
    ),
    Row(
        "coordinator",
        NETWORK,
        YES,
        said("DEADLINE_EXCEEDED: Connect() timed out"),
        "it could not connect to the coordinator of JAX",
        SEE_LINKS,
        echo=True,
    ),
    Row(
        "ucx-link",
        NETWORK,
        YES,
        said("Transport retry count exceeded"),
        "the network between two ranks has failed, or one of them has gone",
        SEE_LINKS,
        echo=True,
    ),
    Row(
        "no-group",
        SCRIPT,
        NO,
        said(
            "Default process group has not been initialized",
            "trying to initialize the default process group twice",
        ),
    ),
)

_ENDED_SERVICES = said(
    "Error 111 connecting to",
    "Error 104 while",
    "Connection closed by server",
    "Timeout connecting to server",
    "Timeout reading from socket",
    "Remote end closed connection",
    "Connection broken: ",
    "IncompleteRead(",
    "Cannot connect to host",
    "Could not connect to the endpoint URL",
    "Connect timeout on endpoint URL",
    "Read timeout on endpoint URL",
    "Connection was closed before we received",
    "Server disconnected",
    "The read operation timed out",
    "The handshake operation timed out",
    "connection to server at ",
    "Is the server running on that host",
    "server closed the connection unexpectedly",
    "failed to connect to all addresses",
    "StatusCode.UNAVAILABLE",
    "StatusCode.DEADLINE_EXCEEDED",
)
"""Of redis, urllib3, aiohttp, botocore, ssl, psycopg and grpc."""

SERVICE_ROWS = (
    Row(
        "no-credentials",
        DATA,
        NO,
        said(
            "Unable to locate credentials",
            "(ExpiredToken) when calling",
            "(InvalidAccessKeyId) when calling",
            "(SignatureDoesNotMatch) when calling",
            "(InvalidClientTokenId) when calling",
            "(InvalidToken) when calling",
            "Partial credentials found",
        ),
        "this node has no valid credentials for the storage service",
        "set them on all nodes (--export AWS_ACCESS_KEY_ID --export AWS_SECRET_ACCESS_KEY)",
    ),
    Row(
        "service-busy",
        NETWORK,
        YES,
        said("(SlowDown) when calling", "(503) when calling", "(Throttling) when calling"),
        "the storage service has refused, as it gets too many requests",
        "let fewer ranks and data loaders ask at the same time",
    ),
    Row(
        "wandb-login",
        SCRIPT,
        NO,
        said("api_key not configured", "No API key configured"),
        "wandb has no API key",
        "set it on all nodes (--export WANDB_API_KEY), or WANDB_MODE=offline",
    ),
    Row(
        "wandb-denied",
        SCRIPT,
        NO,
        said("permission denied", "do not have permission", "entity", "project not found"),
        "wandb has refused access",
        "see whose API key it is, and the names of entity and project",
        raised=("CommError",),
    ),
    Row(
        "wandb-unreachable",
        NETWORK,
        YES,
        said("timed out", "Network error", "Error communicating with wandb process"),
        "wandb could not be reached",
        "let this node reach it, or set WANDB_MODE=offline",
        raised=("CommError",),
    ),
    Row(
        "hub-denied",
        DATA,
        NO,
        said(
            "Cannot access gated repo",
            "gated repo",
            "GatedRepoError",
            "LocalTokenNotFoundError",
            "401 Client Error",
            "403 Client Error",
            "Invalid user token",
            "(AccessDenied) when calling",
            "(403) when calling",
        ),
        "a service has refused access",
        "set a token that may read it on all nodes (--export HF_TOKEN)",
    ),
    Row(
        "service-denied",
        DATA,
        NO,
        said(
            "Authentication required",
            "WRONGPASS",
            "password authentication failed",
            "invalid username-password pair",
            "Incorrect API key",
            "api_key client option must be set",
            "StatusCode.UNAUTHENTICATED",
            "StatusCode.PERMISSION_DENIED",
        ),
        "a service has refused access, as key or password are missing or wrong",
        "set them on all nodes (--export NAME)",
    ),
    Row(
        "hub-missing",
        DATA,
        NO,
        said(
            "404 Client Error",
            "RepositoryNotFoundError",
            "is not a valid model identifier",
            "EntryNotFoundError",
            "doesn't exist on the Hub",
            "Either check the bucket path or the bucket permission",
            "(404) when calling",
            "(NoSuchKey) when calling",
            "(NoSuchBucket) when calling",
        ),
        "what the program wants to load is not there",
        "correct its name, or the path if it is a folder",
    ),
    Row(
        "hub-offline",
        DATA,
        NO,
        said(
            "outgoing traffic has been disabled",
            "OfflineModeIsEnabled",
            "Offline mode is enabled",
        ),
        "the files are not in the cache of this node, and downloads are switched off",
        "download them before, to a cache that all nodes see (HF_HOME)",
    ),
    Row(
        "no-such-name",
        NETWORK,
        PERHAPS,
        said("Name or service not known", "nodename nor servname", "No address associated with"),
        "a name of a host could not be resolved",
        "correct the name, or the name server of this node",
    ),
    Row(
        "bad-certificate",
        NETWORK,
        NO,
        said("CERTIFICATE_VERIFY_FAILED"),
        "a server's certificate is not trusted on this node",
        "install the certificates of its authority there (SSL_CERT_FILE)",
    ),
    Row(
        "service-unreachable",
        NETWORK,
        YES,
        said(
            "Max retries exceeded with url",
            "NewConnectionError",
            "Temporary failure in name resolution",
            "couldn't connect to 'https://",
            "We couldn't connect to",
            "Couldn't reach http",
            "Read timed out",
            "Network is unreachable",
            "No route to host",
            "[Errno 110]",
            "Connection timed out",
            "500 Server Error",
            "502 Server Error",
            "503 Server Error",
            "504 Server Error",
            "429 Client Error",
            *_ENDED_SERVICES,
        ),
        "a service or another host could not be reached",
        "let this node reach it, or download what is needed before the start",
        # The time limit of the store is another matter.
        pattern=r"\A(?!DistNetworkError|DistStoreError)",
    ),
    Row(
        "service-unreachable",
        NETWORK,
        YES,
        sentence="a service could not be reached, or has closed the connection",
        advice="see whether its server runs, and let this node reach it",
        raised=(
            "APIConnectionError",
            "APITimeoutError",
            "ClientConnectorError",
            "ConnectError",
            "ConnectTimeout",
            "ConnectionClosedError",
            "EndpointConnectionError",
            "ReadError",
            "ReadTimeout",
            "RemoteDisconnected",
            "RemoteProtocolError",
            "SSLEOFError",
            "ServerDisconnectedError",
            "ServerSelectionTimeoutError",
        ),
    ),
    Row(
        "connection-ended",
        NETWORK,
        YES,
        raised=("ConnectionResetError", "ConnectionRefusedError", "DistNetworkError"),
        sentence="a connection has ended, or was refused",
        echo=True,
    ),
)

NETWORK_LINES = (
    *(row for row in RANK_ROWS if row.name == "ucx-link"),
    *(row._replace(said=said("attempting to bind on address")) for row in PORT_ROWS[:1]),
    *(
        row._replace(said=said("connectFullMesh failed"))
        for row in RANK_ROWS
        if row.name == "gloo-no-connection"
    ),
)
"""Those whose words mean the same without an exception."""
