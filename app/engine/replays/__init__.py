"""Answers played again without a model: what any way of drafting would have gained on them, and what that advises."""
