"""`python -m assistant` from a checkout."""

import sys

from assistant.cli import main

sys.exit(main())
