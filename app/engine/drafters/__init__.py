"""Sources of drafts: a small model, and what was already said."""

from app.engine.drafters.model import ModelDrafter
from app.engine.drafters.ngram import NgramIndex

__all__ = ["ModelDrafter", "NgramIndex"]
