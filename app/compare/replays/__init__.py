"""Recorded answers played again: any strategy on them, the upper bound, the advice of a cost curve."""
