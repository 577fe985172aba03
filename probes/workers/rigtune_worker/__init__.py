"""Benchmarks and the reference training program for Python 3.9 and torch 2.4, without the application."""
