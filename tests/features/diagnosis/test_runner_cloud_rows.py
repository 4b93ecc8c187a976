"""Services as their clients tell of them."""

from __future__ import annotations

import pytest

from .test_runner_engine_rows import explained


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (
            "network",
            "azure.core.exceptions.ServiceResponseError: ('Connection aborted.',"
            " ConnectionResetError(104, 'Connection reset by peer'))",
        ),
        ("network", "azure.core.exceptions.ServiceRequestError: <urllib3.connection> failed"),
        ("network", "google.api_core.exceptions.ServiceUnavailable: 503 try again"),
        ("network", "urllib.error.HTTPError: HTTP Error 503: Service Unavailable"),
        ("network", "urllib.error.URLError: <urlopen error [Errno 111] Connection refused>"),
        (
            "network",
            'pymysql.err.OperationalError: (2003, "Can\'t connect to MySQL server on db.local")',
        ),
        ("network", "kafka.errors.NoBrokersAvailable: NoBrokersAvailable"),
        ("network", "openai.RateLimitError: Error code: 429 - {'error': 'slow down'}"),
        ("unknown", "openai.RateLimitError: Error code: 429 - {'code': 'insufficient_quota'}"),
        ("data", "azure.core.exceptions.ClientAuthenticationError: Server failed"),
        (
            "data",
            "gcsfs.retry.HttpError: Anonymous caller does not have storage.objects.get access to"
            " the Google Cloud Storage object., 401",
        ),
        (
            "data",
            "google.auth.exceptions.DefaultCredentialsError: Your default credentials were not"
            " found.",
        ),
        ("data", "PermissionError: Access Denied"),
        ("data", "urllib.error.HTTPError: HTTP Error 403: Forbidden"),
        ("unknown", "lab.errors.RetryError: it was tried 3 times"),
        ("unknown", "lab.errors.Forbidden: move 7 is against the rules of the game"),
    ],
)
def test_an_exception(kind: str, text: str) -> None:
    assert explained(text)[0] == kind
