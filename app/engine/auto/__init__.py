"""Drafting that tunes itself: step costs, acceptance rates, the rule that weighs them, and guards against losses."""
