"""Make accelerate treat the ranks of this CPU as GPUs, because accelerate shards only on GPUs.

Python imports this file at its start if the folder is on PYTHONPATH. Without this file, accelerate falls back
to DDP on a CPU without a message.
"""

import os

if "RANK" in os.environ:
    from accelerate import state
    from accelerate.utils import DistributedType

    original = state.AcceleratorState.__init__

    def init(self, *positional, **named):
        named["cpu"] = True
        if state.PartialState(cpu=True).num_processes > 1:
            state.PartialState._shared_state["distributed_type"] = DistributedType.MULTI_GPU
        original(self, *positional, **named)

    state.AcceleratorState.__init__ = init
