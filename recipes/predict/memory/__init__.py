"""Peak memory of a rank, term by term. The doors are `memory_of`, and `vision_memory` for images."""

from recipes.predict.memory.image_memory import vision_memory
from recipes.predict.memory.peak import figure_bytes, memory_of

__all__ = ["figure_bytes", "memory_of", "vision_memory"]
