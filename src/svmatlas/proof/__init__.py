"""The checker: it imports NumPy and the standard library only, nothing of the rest, and reads maps by docs/format.md."""
