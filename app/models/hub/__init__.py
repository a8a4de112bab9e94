"""The Hugging Face hub: what is there, what it is before it is downloaded, and the download.

The only importer of huggingface_hub and its HTTP client. Everything that comes from there is checked here.
"""

import os

from app.models.hub.environment import disable_telemetry, take_address, take_folders

take_address()
take_folders()
disable_telemetry()
# Where the cache has no links the client warns, onto a screen that is drawn on; `app.models.hub.cache` does without
# them.
os.environ.setdefault("HF_HUB_DISABLE_SYMLINKS_WARNING", "1")
# So it does of what the hub says beside its answers, as to everybody without a token.
os.environ.setdefault("HF_HUB_VERBOSITY", "error")
