"""Point `huggingface_hub` in this process at the loopback hub: it reads its environment once, at its import."""

from pathlib import Path

import pytest
from huggingface_hub import close_session, constants, hf_api

PROXY_VARIABLES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY")
TOKEN_VARIABLES = ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "HF_OIDC_RESOURCE", "HF_OIDC_ID_TOKEN")
OTHER_VARIABLES = ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE", "HUGGINGFACE_HUB_CACHE", "HF_TOKEN_PATH", "HF_DEBUG")


def point_at(endpoint: str, home: Path, patch: pytest.MonkeyPatch) -> None:
    """Make the client use this hub, store everything below `home`, and know no token and no proxy.

    The environment is for programs that a test starts, the patches are for this process. Xet is off: the loopback hub
    has no chunk storage.
    """
    close_session()
    for name in (*PROXY_VARIABLES, *TOKEN_VARIABLES, *OTHER_VARIABLES):
        patch.delenv(name, raising=False)
        patch.delenv(name.lower(), raising=False)
    cache = str(home / "hub")
    environment = {
        "HF_ENDPOINT": endpoint,
        "HF_HOME": str(home),
        "HF_HUB_CACHE": cache,
        "HF_HUB_DISABLE_XET": "1",
        "HF_HUB_DISABLE_TELEMETRY": "1",
    }
    for name, value in environment.items():
        patch.setenv(name, value)
    known: dict[str, object] = {
        "ENDPOINT": endpoint,
        "HUGGINGFACE_CO_URL_TEMPLATE": endpoint + "/{repo_id}/resolve/{revision}/{filename}",
        "HF_URL_HOSTS": constants.HF_URL_HOSTS | {endpoint.removeprefix("http://").partition(":")[0]},
        "HF_HOME": str(home),
        "HF_HUB_CACHE": cache,
        "HF_TOKEN_PATH": str(home / "token"),
        "HF_STORED_TOKENS_PATH": str(home / "stored_tokens"),
        "AGENT_HARNESSES_PATH": str(home / ".agent_harnesses.json"),
        "CHECK_FOR_UPDATE_DONE_PATH": str(home / ".check_for_update_done"),
        "HF_HUB_OFFLINE": False,
        "HF_HUB_DISABLE_XET": True,
        "HF_HUB_DISABLE_TELEMETRY": True,
        "HF_HUB_DISABLE_IMPLICIT_TOKEN": False,
    }
    for name, constant in known.items():
        patch.setattr(constants, name, constant)
    # The functions of the package are methods of this object.
    patch.setattr(hf_api.api, "endpoint", endpoint)
