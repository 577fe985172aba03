"""Machines whose rates are multiplied by a factor."""

import msgspec

from recipes.machine.cluster_records import Cluster


def with_figures(cluster: Cluster, factor: float, *names: str) -> Cluster:
    """Return the cluster with `factor` times the named figures; unknown figures stay unknown."""
    figures = {name: getattr(cluster, name) for name in names}
    return msgspec.structs.replace(
        cluster, **{name: figure and figure.times(factor) for name, figure in figures.items()}
    )


def with_node_links(cluster: Cluster, factor: float) -> Cluster:
    """Return the cluster with `factor` times the bandwidth of links inside a node.

    Measured collectives get faster by the same factor; latencies stay.
    """
    fits = {
        name: msgspec.structs.replace(
            fit,
            lines=tuple(
                msgspec.structs.replace(line, seconds_per_byte=line.seconds_per_byte / factor)
                for line in fit.lines
            ),
        )
        for name, fit in cluster.collective_fits.items()
    }
    faster = with_figures(cluster, factor, "intra_bus_bandwidth_bytes_per_s")
    return msgspec.structs.replace(faster, collective_fits=fits)
