"""Variables that a recipe may not set, because a launcher, the shell or a launch script needs them."""

SET_BY_LAUNCHER = {
    *(
        "RANK",
        "LOCAL_RANK",
        "WORLD_SIZE",
        "LOCAL_WORLD_SIZE",
        "GROUP_RANK",
        "NODE_RANK",
        "ATTEMPT",
        "MASTER_ADDR",
        "MASTER_PORT",
    ),
    *("NODE_COUNT", "NODE_HOSTS", "TF_CONFIG"),
    *("RAY_ADDRESS", "RAY_AUTH_MODE", "RAY_AUTH_TOKEN_PATH"),
    "RIGTUNE_PYTHON",
    "RIGTUNE_RECIPE",
    "RIGTUNE_LOGS",
    "TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE",
}
"""Variables that launchers give to each process."""
SHELL_OWN = {
    *("BASHOPTS", "BASH_VERSINFO", "EUID", "PPID", "SHELLOPTS", "UID"),
    *("BASH_ENV", "CDPATH", "IFS", "OPTIND", "POSIXLY_CORRECT"),
}
"""Variables of bash: read-only ones, whose assignment ends a script, and ones that change how it runs."""
SCRIPT_VARIABLES = {
    *("attempt", "code", "command", "escaped", "family", "first_node", "folder", "guard", "host", "hosts"),
    *("container", "failed", "free", "gpus", "here", "list", "logs", "missing", "names", "program", "report"),
    *(
        "master",
        "node_rank",
        "options",
        "port",
        "processes",
        "remote",
        "keep_up",
        "left",
        "ssh",
        "python",
        "rank",
        "restarts",
        "saves",
        "signal",
        "caught",
        "forget",
        "holders",
        "endpoint",
        "start",
        "step",
        "why",
        "word",
    ),
    *("address", "failures", "keep", "process", "ray", "second", "secret", "tasks", "token"),
}
"""Variables that the launch scripts assign; a test checks that the list is complete."""
