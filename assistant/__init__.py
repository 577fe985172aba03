"""Use cases, the command line, reports and the terminal UI."""
