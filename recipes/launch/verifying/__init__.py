"""The pure half of `rigtune verify`: the smoke test's records and findings, and the comparison of a run."""
