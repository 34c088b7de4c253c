#!/usr/bin/env bash
# Serves the model that setup.sh made, as smollm2, until it is ended; ready in 30 to
# 90 s, when GET /health answers 200.
#
# Usage: serve.sh FOLDER ngram|draft PORT [more arguments of vllm serve]
#
# At temperature 0 only: the CPU build samples wrongly above it while it speculates.
# It needs 5 GB of memory and asks for a process group of its own: it leaves child
# processes behind if only its first one is killed.
set -euo pipefail
usage="usage: serve.sh FOLDER ngram|draft PORT [more arguments of vllm serve]"
cd "${1:?$usage}/vllm"
case ${2:?$usage} in
ngram) drafts='{"method":"ngram","num_speculative_tokens":3,"prompt_lookup_max":4,"prompt_lookup_min":2}' ;;
draft) drafts='{"method":"draft_model","model":"models/smollm2-draft","num_speculative_tokens":4}' ;;
*) echo "$usage" >&2; exit 2 ;;
esac
port=${3:?$usage}
shift 3
export HF_HUB_OFFLINE=1 TRANSFORMERS_OFFLINE=1 VLLM_NO_USAGE_STATS=1 DO_NOT_TRACK=1 TOKENIZERS_PARALLELISM=false
export OTEL_SERVICE_NAME=${OTEL_SERVICE_NAME:-vllm} # of its spans, which have no name of their own
export VLLM_CONFIG_ROOT=$PWD/config VLLM_CACHE_ROOT=$PWD/cache
export VLLM_CPU_KVCACHE_SPACE=1 VLLM_CPU_OMP_THREADS_BIND=nobind OMP_NUM_THREADS=${OMP_NUM_THREADS:-2}
preload=
for library in /usr/lib/*/libtcmalloc_minimal.so.4 "$PWD/venv/lib/libiomp5.so"; do
  [ ! -e "$library" ] || preload=$preload:$library
done
LD_PRELOAD=${preload#:} exec venv/bin/vllm serve models/smollm2 --served-model-name smollm2 --host 127.0.0.1 --port "$port" \
  --max-model-len 2048 --max-num-seqs 16 --dtype bfloat16 --enforce-eager --speculative-config "$drafts" "$@"
