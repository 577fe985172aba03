"""Train a small network with Lightning: `lightning_train.py SETTINGS RATE MICRO_BATCH`; prints REPORT."""

import json
import sys
from pathlib import Path

import torch
from lightning.pytorch import LightningModule, Trainer
from torch.utils.data import DataLoader, TensorDataset


class Network(LightningModule):
    """Two layers with a squared loss."""

    def __init__(self, rate: float) -> None:
        super().__init__()
        self.rate, self.losses = rate, []
        self.layers = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Tanh(), torch.nn.Linear(16, 1))

    def training_step(self, batch: list[torch.Tensor]) -> torch.Tensor:
        loss = torch.nn.functional.mse_loss(self.layers(batch[0]).float(), batch[1])
        self.losses.append(float(loss.detach()))
        return loss

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.AdamW(self.parameters(), lr=self.rate)


torch.manual_seed(0)
inputs = torch.randn(256, 8)
data = TensorDataset(inputs, inputs.sum(dim=1, keepdim=True))
settings = json.loads(Path(sys.argv[1]).read_text())
trainer = Trainer(**settings, logger=False, enable_checkpointing=False, enable_progress_bar=False)
network = Network(float(sys.argv[2]))
trainer.fit(network, DataLoader(data, batch_size=int(sys.argv[3])))
report = {
    "rank": trainer.global_rank,
    "world": trainer.world_size,
    "steps": trainer.global_step,
    "batches": len(network.losses),
    "precision": trainer.precision,
    "strategy": type(trainer.strategy).__name__,
    "clipping": trainer.gradient_clip_val,
    "losses": network.losses,
    "weight": float(network.layers[0].weight.detach().double().sum()),
}
sys.stdout.write(f"REPORT {json.dumps(report)}\n")
