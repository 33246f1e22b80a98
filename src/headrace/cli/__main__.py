"""`python -m headrace.cli`."""

import sys

from .main import main

sys.exit(main())
