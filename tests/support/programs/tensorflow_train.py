"""A small training loop of tf.distribute; every process prints REPORT and its view of the job."""

import json
import os
import socket
import sys

import tensorflow as tf

kind, steps = sys.argv[1], int(sys.argv[2])
task = json.loads(os.environ.get("TF_CONFIG", "{}")).get("task", {})
if kind == "ParameterServerStrategy":
    strategy = tf.distribute.ParameterServerStrategy(tf.distribute.cluster_resolver.TFConfigClusterResolver())
else:
    strategy = getattr(tf.distribute, kind)()
with strategy.scope():
    weight = tf.Variable(0.0)


def one_step():
    def of_replica():
        context = tf.distribute.get_replica_context()
        replica = tf.cast(context.replica_id_in_sync_group, tf.float32)
        return context.all_reduce(tf.distribute.ReduceOp.SUM, replica + 1.0)

    return strategy.run(of_replica)


def of_worker():
    weight.assign_add(1.0)
    return weight.read_value()


report = {"task": task, "host": socket.gethostname(), "replicas": strategy.num_replicas_in_sync}
if kind == "ParameterServerStrategy":
    coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
    for _ in range(steps):
        coordinator.schedule(tf.function(of_worker))
    coordinator.join()
    report["weight"] = float(weight.numpy())
    report["device"] = weight.device
else:
    step = tf.function(one_step)
    for _ in range(steps):
        total = step()
    report["sum"] = float(strategy.experimental_local_results(total)[0])
os.write(1, f"REPORT {json.dumps(report)}\n".encode())
sys.exit(int(sys.argv[3]) if len(sys.argv) > 3 else 0)
