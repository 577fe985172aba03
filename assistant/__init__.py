"""Talk to the person: use-cases, command line, reports and the terminal UI."""
