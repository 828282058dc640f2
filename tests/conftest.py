"""What every test shares."""

from hypothesis import settings

# Time limits on single examples fail on a busy machine, which says nothing about the code.
settings.register_profile("busy", deadline=None)
settings.load_profile("busy")
