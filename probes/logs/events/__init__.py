"""Typed records of what log lines report: one file for each family of events, one frozen record for each
kind.
"""
