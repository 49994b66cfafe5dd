"""The only gate: the user's data -> a ``Problem``, and solutions back to the user's units."""
