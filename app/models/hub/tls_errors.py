"""What is wrong with an encrypted connection, in sentences: by the words that OpenSSL has for it."""

from __future__ import annotations

import os

from app.core.errors import HubError
from app.core.printable import printable

_CERTIFICATES = "SSL_CERT_FILE"
_UNREAD = ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")
"""Where other programs look for certificates, and the hub's client does not."""
_CLOCK = ("certificate has expired", "certificate is not yet valid")
_ANOTHER = ("hostname mismatch", "ip address mismatch")


def certificate_sentence(said: str, host: str, login_page: str) -> HubError:
    """What is wrong with the certificate that somebody shows.

    Args:
        said: What OpenSSL says of it.
        host: Who was asked.
        login_page: What to think where something else answers.
    """
    said = said.lower()
    if any(words in said for words in _CLOCK):
        return HubError(
            f"{host} shows a certificate that is not valid at the time that it is here.",
            "Check the clock of this machine first, its date too.",
        )
    if any(words in said for words in _ANOTHER):
        return HubError(f"{host} shows the certificate of another host.", login_page)
    other = next((name for name in _UNREAD if os.environ.get(name)), "")
    unread = f" {other} is set, and is not read for this." if other and not os.environ.get(_CERTIFICATES) else ""
    return HubError(
        f"{host} shows a certificate that is not trusted.",
        f"A proxy may look into the connection: set {_CERTIFICATES} to its certificate.{unread}",
    )


def unencrypted(host: str, check_named: str) -> HubError:
    """What to say where somebody answers who does not encrypt."""
    return HubError(
        f"{host} is asked for an encrypted connection, and answers with something else.",
        f"Where it or a proxy has none, its address begins with http://, not https://.{check_named}",
    )


def certificates_unreadable() -> HubError:
    """What to say where the certificates that are to be trusted cannot be loaded."""
    named = os.environ.get(_CERTIFICATES)
    if not named:
        return HubError(
            "The certificates that this system trusts cannot be read.",
            f"Set {_CERTIFICATES} to a file of certificates in PEM form.",
        )
    return HubError(
        f"{_CERTIFICATES} names {printable(named)}, which holds no certificates.",
        "Unset it, or name a file in PEM form: text with lines such as BEGIN CERTIFICATE.",
    )
