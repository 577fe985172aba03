"""Benchmarks and the reference training program. Needs Python 3.9 and torch 2.4, and nothing of the
application.
"""
