"""Many nodes: what each reported, how they compare with each other, and what they have in common."""
