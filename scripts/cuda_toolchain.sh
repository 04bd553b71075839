#!/usr/bin/env bash
# Fetches nvcc 13.0 from PyPI into target/cuda, for machines without a CUDA toolkit, and prints how to use it:
#   eval "$(scripts/cuda_toolchain.sh)"
# With an nvcc on the PATH it does nothing and prints nothing.
set -euo pipefail
cd "$(dirname "$0")/.."
if command -v nvcc > /dev/null; then exit 0; fi
venv=$PWD/target/cuda
if ! ls "$venv"/lib/python3*/site-packages/nvidia/cu13/bin/nvcc > /dev/null 2>&1; then
  python3 -m venv "$venv" >&2
  "$venv/bin/pip" install --quiet "cuda-toolkit[nvcc,cudart,cccl]==13.0.*" >&2
fi
home=$(echo "$venv"/lib/python3*/site-packages/nvidia/cu13)
test -x "$home/bin/nvcc"
# The linker and sppark look into lib64; the wheels have lib.
ln -sfn lib "$home/lib64"
echo "export CUDA_HOME=$home NVCC=$home/bin/nvcc PATH=$home/bin:\$PATH LIBRARY_PATH=$home/lib64\${LIBRARY_PATH:+:\$LIBRARY_PATH}"
