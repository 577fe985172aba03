"""Python files that travel with a launch script and start the user's program on the nodes."""

from importlib import resources

from recipes.launch.recipe import Artifact


def node_file(name: str) -> Artifact:
    """Return a file of `recipes/launch/templates` that runs on the nodes without rigtune."""
    return Artifact(path=name, text=(resources.files("recipes.launch") / "templates" / name).read_text())
