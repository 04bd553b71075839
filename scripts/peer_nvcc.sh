#!/usr/bin/env bash
# nvcc for the capabilities in PINPROVER_CUDA_ARCHS (by default 90), whatever the command line says: supraseal-c2 compiles for four
# generations of devices, and PTX. Set NVCC to this file and PEER_NVCC to nvcc itself.
set -euo pipefail
keep=() compiles=0
while [ $# -gt 0 ]; do
  case $1 in
    -gencode) shift ;;
    -arch=*) ;;
    -c) compiles=1 keep+=("$1") ;;
    *) keep+=("$1") ;;
  esac
  shift
done
if [ "$compiles" = 1 ]; then
  archs=${PINPROVER_CUDA_ARCHS:-90}
  for arch in ${archs//,/ }; do keep+=(-gencode "arch=compute_$arch,code=sm_$arch"); done
fi
exec "${PEER_NVCC:?the path of nvcc itself}" "${keep[@]}"
