"""A node that has lost GPUs is not fit to train, whatever the others answer, and what is expected is compared."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from assistant.cli import main
from tests.replay.test_index import MACHINES

REPORT = MACHINES / "nvsmi_text" / "q-h100-sxm-vm-590.48.01-idle.txt"
