"""A pair held against the memory of this machine: what it takes, where it goes, and the ways out if it does not fit."""
