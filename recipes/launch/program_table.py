"""The programs for which rigtune writes launch files. To add a program, write its file and a row here."""

from probes.base.table_rows import Row

PROGRAM_WRITERS: tuple[Row, ...] = (
    Row(id="own", title="your own torch program", module="recipes.launch.programs.own"),
    Row(id="deepspeed", title="DeepSpeed", module="recipes.launch.programs.deepspeed"),
    Row(id="accelerate", title="Hugging Face accelerate", module="recipes.launch.programs.accelerate"),
    Row(id="hf-trainer", title="Hugging Face Trainer", module="recipes.launch.programs.hf_trainer"),
    Row(id="trl", title="TRL (SFTTrainer)", module="recipes.launch.programs.trl"),
    Row(id="llama-factory", title="LLaMA-Factory", module="recipes.launch.programs.llama_factory"),
    Row(id="axolotl", title="axolotl", module="recipes.launch.programs.axolotl"),
    Row(id="lightning", title="PyTorch Lightning", module="recipes.launch.programs.lightning"),
    Row(id="ms-swift", title="ms-swift", module="recipes.launch.programs.ms_swift"),
    Row(id="tensorflow", title="TensorFlow", module="recipes.launch.programs.tensorflow"),
    Row(id="horovod", title="Horovod", module="recipes.launch.programs.horovod"),
    Row(id="ray-train", title="Ray Train", module="recipes.launch.programs.ray_train"),
    Row(id="reference", title="rigtune's reference workload", module="recipes.launch.programs.reference"),
    Row(id="nccl-tests", title="nccl-tests", module="recipes.launch.programs.nccl_tests"),
    Row(id="megatron", title="Megatron-LM", module="recipes.launch.programs.megatron_lm"),
    Row(id="torchtitan", title="torchtitan", module="recipes.launch.programs.torchtitan"),
    Row(id="torchtune", title="torchtune", module="recipes.launch.programs.torchtune"),
)
"""Each module has one pure function, `write(recipe: Recipe) -> ProgramFiles`.

It raises UsageError if the program cannot run the recipe. An id is that of a row of
`recipes/data/programs.toml`, which states what the program can do and how fast it is; only nccl-tests has no
such row, because it trains nothing.
"""

WRITTEN: tuple[str, ...] = tuple(row.id for row in PROGRAM_WRITERS if row.id != "nccl-tests")
"""Ids of the training programs for which rigtune writes launch files."""
