"""Environment variables of a job, and the binding of its ranks to processors."""
