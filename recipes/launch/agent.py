"""The command line that starts the ranks of one node."""


def agent_argv(python: str, ranks_per_node: int, program: tuple[str, ...]) -> tuple[str, ...]:
    """Return the command that runs `program` on `ranks_per_node` ranks of this node, through torch's agent.

    `program` is `-m module args` or `script args`. A single rank needs no agent. The rendezvous address is
    the loopback, because the host name of a new server often cannot be resolved.
    """
    if ranks_per_node == 1:
        return (python, *program)
    agent = (
        "-m",
        "torch.distributed.run",
        "--standalone",
        "--local-addr",
        "127.0.0.1",
        "--nproc-per-node",
        str(ranks_per_node),
    )
    return (python, *agent, *program)
