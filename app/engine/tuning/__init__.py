"""Drafting that tunes itself: what a batch costs here, what gets accepted, and the rule that weighs the two."""
