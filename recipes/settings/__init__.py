"""Settings of the trained model and of the run: batch, learning rate, checkpoints, time-outs."""
