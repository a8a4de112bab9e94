"""How an answer is drafted: not at all, by fixed numbers, or by what is measured."""

from app.engine.strategies.auto import AutomaticDrafting
from app.engine.strategies.fixed import FixedDrafting
from app.engine.strategies.plain import PlainDecoding

__all__ = ["AutomaticDrafting", "FixedDrafting", "PlainDecoding"]
