"""Run the program from a checkout: `python -m assistant`."""

from assistant._entry import main

main()
