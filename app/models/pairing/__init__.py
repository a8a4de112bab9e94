"""From a wish to a pair that works: finding it, checking it, fitting it, bringing it."""
