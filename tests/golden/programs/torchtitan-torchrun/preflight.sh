#!/usr/bin/env bash
# Tests on one node that the job can start there, before its ranks start. RIGTUNE_PREFLIGHT=0 skips them.
#
# Usage: preflight.sh PYTHON [FURTHER MODULES], in the working folder, with RIGTUNE_LOGS
set -uo pipefail
if [[ ${RIGTUNE_PREFLIGHT:-1} == 0 ]]; then exit 0; fi
python=$1
failed=0

complain() {
  echo "preflight.sh: $(uname -n): $1" >&2
  failed=1
}

# A GPU, or a part of one, for every rank of this node
gpus=
if [[ -n ${CUDA_VISIBLE_DEVICES:-} ]]; then
  gpus=$(tr , '\n' <<<"$CUDA_VISIBLE_DEVICES" | grep -c .)
elif list=$(nvidia-smi -L 2>/dev/null); then
  gpus=$(grep -c '^  MIG ' <<<"$list") || gpus=$(grep -c '^GPU ' <<<"$list")
fi
if [[ -n $gpus && $gpus -lt 8 ]]; then
  complain "the number of visible GPUs is $gpus, but the ranks of a node need 8"
fi

# The modules of the program; torch itself is not imported
if ! type -P -- "$python" >/dev/null; then
  complain "no Python interpreter $python; set RIGTUNE_PYTHON to one that has torch"
elif ! missing=$("$python" -c '
import sys
here = sys.path.pop(0)
from importlib.util import find_spec
sys.path.insert(0, here)
names = [name for name in sys.argv[1:] if find_spec(name) is None]
print(*names)
sys.exit(bool(names))
' torch torchtitan torchao "${@:2}" 2>&1); then
  complain "$python lacks ${missing//$'\n'/ }"
fi

# Shared memory, through which NCCL and data loaders exchange data (a container often has 64 MiB)
if free=$(df -Pk /dev/shm 2>/dev/null | awk 'NR == 2 { print $4 }') && [[ $free =~ ^[0-9]+$ && $free -lt 1048576 ]]; then
  complain "/dev/shm has only $((free / 1024)) MiB free; enlarge it, or remove files of dead jobs there"
fi

# The folder for the logs
if ! mkdir -p -- "$RIGTUNE_LOGS" 2>/dev/null || [[ ! -w $RIGTUNE_LOGS ]]; then
  complain "cannot write to the folder $RIGTUNE_LOGS; set RIGTUNE_LOGS to another"
fi

# The checks of rigtune; what they cannot determine is no reason to stop.
if type -P rigtune >/dev/null; then
  code=0
  report=$(rigtune check -q --python "$python" 2>&1) || code=$?
  if [[ $code -eq 1 ]]; then complain "rigtune check: $report"; fi
fi

if [[ $failed -ne 0 ]]; then
  echo "preflight.sh: the job is not started on $(uname -n); RIGTUNE_PREFLIGHT=0 skips these tests" >&2
fi
exit "$failed"
