"""The Hugging Face hub: what is there, what it is before it is downloaded, and the download.

The only importer of huggingface_hub and its HTTP client. Everything that comes from there is checked here.
"""

import os

from app.errors import HubError


def _check_endpoint() -> None:
    """Raise HubError for an HF_ENDPOINT that huggingface_hub could not be imported with."""
    from urllib.parse import urlsplit

    try:
        urlsplit(os.environ.get("HF_ENDPOINT", ""))
    except ValueError:
        raise HubError(
            "HF_ENDPOINT is no address.", "Leave it out, or write one such as https://huggingface.co."
        ) from None


_check_endpoint()
# Where the cache has no links the client warns, onto a screen that is drawn on; `app.hub.store` does without them.
os.environ.setdefault("HF_HUB_DISABLE_SYMLINKS_WARNING", "1")
