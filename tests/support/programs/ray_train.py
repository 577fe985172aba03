"""A rank as torchrun starts it: every rank writes a report with the sum of all ranks, numbered from 1."""

import json
import os
import socket
import sys
from pathlib import Path

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
total = torch.tensor([dist.get_rank() + 1.0])
dist.all_reduce(total)
report = {
    "rank": int(os.environ["RANK"]),
    "local_rank": int(os.environ["LOCAL_RANK"]),
    "world": dist.get_world_size(),
    "sum": total.item(),
    "host": socket.gethostname(),
    "words": sys.argv[2:],
    "variable": os.environ.get("MY_VALUE", ""),
    "plan": json.loads(Path(os.environ["RIGTUNE_RECIPE"]).read_text())["name"],
}
(Path(sys.argv[1]) / f"{report['rank']}.json").write_text(json.dumps(report))
dist.destroy_process_group()
