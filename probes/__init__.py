"""Know the machine: sources, parsers, collectors, checks and benchmarks."""
