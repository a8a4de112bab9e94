"""Fit a pair into the memory of this machine: what it needs, what is free, and options if it does not fit."""
