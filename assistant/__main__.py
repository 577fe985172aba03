"""`python -m assistant` from a checkout."""

from assistant._entry import main

main()
