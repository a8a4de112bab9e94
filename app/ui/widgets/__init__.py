"""Parts that several screens are made of; what belongs to one purpose stands with it."""
