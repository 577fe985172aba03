"""DeepSpeed's settings that keep training state in the host's memory; several programs pass them on."""

from recipes.launch.recipe import Recipe
from recipes.launch.settings_tree import Tree

_ON_HOST: Tree = {"device": "cpu", "pin_memory": True}


def zero_offload(recipe: Recipe) -> Tree:
    """Return the keys of `zero_optimization` that keep optimizer states, or weights too, in host memory."""
    kind = recipe.parallelism.offload
    blocks: Tree = {"offload_optimizer": dict(_ON_HOST)} if kind != "none" else {}
    if kind == "weights":
        blocks["offload_param"] = dict(_ON_HOST)
    return blocks
