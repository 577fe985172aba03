"""Typed records of log lines: a module for each family of events, a frozen record for each kind."""
