"""Sources of drafts: a small model, and what was already said."""

from app.engine.drafters.lookup import LookupIndex
from app.engine.drafters.model import ModelDrafter

__all__ = ["LookupIndex", "ModelDrafter"]
