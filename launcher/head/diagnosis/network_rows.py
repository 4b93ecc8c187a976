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
SEE_LINKS = "dsrun-check shows whether the nodes reach each other"
ANOTHER_PORT = "end that program, or choose another port"

PORT_ROWS = (
    Row(
        "port-in-use",
        NODE,
        PERHAPS,
        said("EADDRINUSE", "Address already in use", "address already in use"),
        "a port that the program listens on is in use",
        ANOTHER_PORT,
        finds="port",
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
        "rank-closed",
        NETWORK,
        YES,
        said("Connection closed by peer", "Connection reset by peer [", "gloo/transport"),
        "its connection to another rank has ended",
        SEE_LINKS,
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

SERVICE_ROWS = (
    Row(
        "no-credentials",
        DATA,
        NO,
        said(
            "Unable to locate credentials",
            "(ExpiredToken) when calling",
            "(InvalidAccessKeyId) when calling",
        ),
        "this node has no valid credentials for the storage service",
        "set them on all nodes (--export AWS_ACCESS_KEY_ID,AWS_SECRET_ACCESS_KEY)",
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
            "401 Client Error",
            "403 Client Error",
            "gated repo",
            "GatedRepoError",
            "Invalid user token",
            "(AccessDenied) when calling",
            "(403) when calling",
        ),
        "a service has refused access",
        "set a token that may read it on all nodes (--export HF_TOKEN)",
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
        ),
        "a service or another host could not be reached",
        "let this node reach it, or download what is needed before the start",
        # The time limit of the store is another matter.
        pattern=r"\A(?!DistNetworkError|DistStoreError)",
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
    *(
        row._replace(said=said("connectFullMesh failed"))
        for row in RANK_ROWS
        if row.name == "gloo-no-connection"
    ),
)
"""Those whose words mean the same without an exception."""
