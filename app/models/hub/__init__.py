"""Hugging Face: search, headers and downloads, everything checked.

The only importer of huggingface_hub and its HTTP client.
"""

from app.models.hub.environment import prepare_environment

prepare_environment()
