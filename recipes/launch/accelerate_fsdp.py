"""Settings of accelerate's FSDP2 plugin: a block of its file, or the variables that replace the file."""

from recipes.launch.layer_classes import layer_class_of
from recipes.launch.recipe import Recipe
from recipes.launch.settings_tree import Tree

_OTHER_NAMES = {"transformer_layer_cls_to_wrap": "TRANSFORMER_CLS_TO_WRAP"}
"""Names of variables by key, for keys whose variable has another name."""


def fsdp_block(recipe: Recipe) -> Tree:
    """Return the keys of `fsdp_config` for wrapping, resharding, offload, checkpoints and the loading of
    weights.
    """
    layer = layer_class_of(recipe)
    return {
        "fsdp_reshard_after_forward": True,
        "fsdp_auto_wrap_policy": "TRANSFORMER_BASED_WRAP",
        **({"fsdp_transformer_layer_cls_to_wrap": layer} if layer else {}),
        **({"fsdp_offload_params": True} if recipe.parallelism.offload != "none" else {}),
        "fsdp_state_dict_type": "SHARDED_STATE_DICT",
        "fsdp_cpu_ram_efficient_loading": True,
    }


def fsdp_variables(block: Tree) -> dict[str, str]:
    """Return the variables that `accelerate launch` makes of this `fsdp_config`."""
    variables = {"ACCELERATE_USE_FSDP": "true"}
    for name, value in block.items():
        key = name.removeprefix("fsdp_")
        variables[f"FSDP_{_OTHER_NAMES.get(key, key.upper())}"] = variable_text(value)
    return variables


def variable_text(value: object) -> str:
    """Return a value of accelerate's file in the form that accelerate writes into a variable."""
    return str(value).lower() if isinstance(value, bool) else str(value)
