"""Sources of drafts, behind one interface: `app.engine.interfaces.Drafter`."""

from app.engine.drafters.model import ModelDrafter
from app.engine.drafters.none import NoDrafter

__all__ = ["ModelDrafter", "NoDrafter"]
