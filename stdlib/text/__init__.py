"""Strings, one or a tensor of them, and what networks that read give."""
