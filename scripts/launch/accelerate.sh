#!/usr/bin/env bash
# One machine, several processes:
#   scripts/launch/accelerate.sh configs/accelerate/fsdp2_8gpu.yaml sft configs/train/gpu8_fsdp2.yaml [--set KEY=VALUE …]
# The same command goes on from the last whole checkpoint after a stop.
set -euo pipefail
if [ $# -lt 3 ]; then
  echo "usage: $0 ACCELERATE_YAML sft|dpo|kto|grpo TRAIN_YAML [--set KEY=VALUE ...]" >&2
  exit 2
fi
accelerate_config=$1 stage=$2 config=$3
shift 3
if [ "$stage" = sft ]; then
  breadcrumbs train check --config "$config" "$@" # once, before many processes start
fi
exec accelerate launch --config_file "$accelerate_config" --module \
  breadcrumbs train "$stage" --config "$config" "$@"
