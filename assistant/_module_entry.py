"""Run the installed program: `python -m rigtune`. In a wheel this file is `rigtune/__main__.py`."""

import sys

sys.modules["rigtune"].main()
