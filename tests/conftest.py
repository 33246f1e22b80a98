"""What holds for all tests."""

from hypothesis import settings

# How long one example takes says more of what else the machine does than of the code.
settings.register_profile("headrace", deadline=None)
settings.load_profile("headrace")
