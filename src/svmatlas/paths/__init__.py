"""Rays and segments: all models along a line, without a map."""
