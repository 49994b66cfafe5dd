"""One pair of costs -> one model, without a map: solutions, their duality gaps, limits, and the walk to them."""
