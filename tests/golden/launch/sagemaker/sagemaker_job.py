# Llama 3 8B on 4 x 8 NVIDIA H100
#
# FSDP on 4 nodes x 8 ranks (NVIDIA H100, nccl), bf16, activation checkpointing full. Micro-batch 2 x 2
# accumulation steps x 32 ranks = global batch 128.
# Predicted: 1.5 s per step, 55.9 GiB allocated per rank; `rigtune verify recipe.toml` measures it.
#
# Start in the folder with your program: python3 FOLDER/sagemaker_job.py, where FOLDER is the folder of this file
# Needs: the SageMaker Python SDK 3 (pip install 'sagemaker>=3,<4') and credentials of AWS.
# With SDK 2 the same job is sagemaker.pytorch.PyTorch(entry_point="sagemaker-node.sh", source_dir=...,
# image_uri=..., role=..., instance_type=..., instance_count=...), with your program and the files of this
# folder in source_dir.
# Written by rigtune from recipe.toml beside this file, which has the reasons and sources of every setting.
import os
from pathlib import Path

from sagemaker.train.configs import CheckpointConfig, Compute, InputData, SourceCode, StoppingCondition
from sagemaker.train.model_trainer import ModelTrainer

FOLDER = Path(__file__).resolve().parent

trainer = ModelTrainer(
    base_job_name='mini',
    role='arn:aws:iam::123456789012:role/Training',
    training_image='registry.example.org/team/train:1.2',
    # The current folder with your program; every instance starts the script of the export folder.
    source_code=SourceCode(
        source_dir=str(Path.cwd()),
        command="bash /opt/ml/input/data/rigtune/sagemaker-node.sh",
    ),
    compute=Compute(
        instance_type='ml.p5.48xlarge',
        instance_count=4,
        volume_size_in_gb=500,
    ),
    stopping_condition=StoppingCondition(max_runtime_in_seconds=86400),
    # Files in /opt/ml/checkpoints are copied to the bucket, and back when the job starts again.
    checkpoint_config=CheckpointConfig(s3_uri='s3://my-bucket'),
    # Tokens are taken from the environment of the calling shell and written to no file.
    environment={word: os.environ[word] for word in ("HF_TOKEN", "WANDB_API_KEY") if word in os.environ},
)

if __name__ == "__main__":
    trainer.train(input_data_config=[InputData(channel_name="rigtune", data_source=str(FOLDER))])
