"""The Hugging Face hub: what is there, what it is before it is downloaded, and the download.

The only importer of huggingface_hub and its HTTP client. Everything that comes from there is checked here.
"""

from app.hub.environment import take_address

take_address()
