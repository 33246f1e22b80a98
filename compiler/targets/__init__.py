"""Machines that plans are compiled for, one a file (`../target.py` reads them)."""
