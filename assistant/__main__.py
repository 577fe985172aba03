"""`python -m assistant` from a checkout."""

from assistant.cli import main

main()
