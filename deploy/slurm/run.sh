#!/usr/bin/env bash
# run.sh [vllm serve arguments] -- [spectap sweep arguments]
#
# The task of a Slurm job: starts vllm serve, sweeps it and stops it with `spectap
# launch`, whose exit code is its own. The last line of stdout is
# <REPORT>PASS: ...</REPORT> or <REPORT>FAIL: ...</REPORT>. Needs bash and a
# container with vllm; the model is HF_MODEL_CKPT unless the arguments name it.
#
#   SPECTAP_BIN       the spectap binary; else the one beside this script, else PATH
#   CONTAINER_IMAGE   written into configuration.json (pyxis tells it to nobody)
#   SPECTAP_UPLOAD    s3://bucket/prefix: where `spectap upload` copies the results,
#                     with SPECDEC_BENCH_S3_ENDPOINT, _KEY_ID and _SECRET
#   VLLM_STARTUP_TIMEOUT, SPECTAP_STOP_GRACE and all else: see `spectap launch --help`
#
# It never traces itself (set -x): arguments and variables may hold secrets.
set -euo pipefail

fail() { # exit code, reason
  printf 'run.sh: %s\n' "$2" >&2
  printf '<REPORT>FAIL: run.sh: %s</REPORT>\n' "$2"
  exit "$1"
}

say() { printf 'run.sh: %s\n' "$*" >&2; }

# vLLM spreads over the GPUs by itself: one task is enough, others leave.
rank=${SLURM_PROCID:-${PMIX_RANK:-${OMPI_COMM_WORLD_RANK:-0}}}
if [[ $rank != 0 ]]; then
  say "rank $rank has nothing to do"
  exit 0
fi
tasks=${SLURM_STEP_NUM_TASKS:-${SLURM_NTASKS:-1}}
if [[ $tasks != 1 ]]; then
  say "started as $tasks tasks, of which rank 0 works: want one (ntasks_per_node: 1). Where srun has --wait, it ends rank 0 so long after the others"
fi

find_spectap() {
  local here
  here=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)
  if [[ -n ${SPECTAP_BIN:-} ]]; then
    spectap=$SPECTAP_BIN
  elif [[ -e $here/spectap ]]; then
    spectap=$here/spectap
  else
    spectap=$(type -P spectap) || fail 2 "no spectap: put the binary into $here, name it with SPECTAP_BIN, or have it on PATH"
  fi
  [[ -f $spectap ]] || fail 2 "cannot find spectap at $spectap: want the binary's path in SPECTAP_BIN, as the container sees it"
  [[ -x $spectap ]] || fail 2 "cannot run $spectap: want an executable file (chmod +x)"
  "$spectap" version >/dev/null 2>&1 || fail 2 "cannot run $spectap: want a binary for $(uname -sm)"
}

# Before the server starts, which may take minutes, all that an upload after the
# sweep would lack.
check_upload() {
  local name missing=()
  [[ $SPECTAP_UPLOAD == s3://[!/]* ]] || fail 2 "cannot use SPECTAP_UPLOAD: want s3://bucket/prefix"
  for name in SPECDEC_BENCH_S3_ENDPOINT SPECDEC_BENCH_S3_KEY_ID SPECDEC_BENCH_S3_SECRET CONTAINER_IMAGE; do
    [[ -n ${!name:-} ]] || missing+=("$name")
  done
  [[ ${#missing[@]} = 0 ]] || fail 2 "cannot upload without ${missing[*]}: set them, or unset SPECTAP_UPLOAD"
}

# find_save_dir finds the folder of the results among the sweep's arguments.
find_save_dir() {
  save_dir=
  while [[ $# -gt 0 && $1 != -- ]]; do shift; done
  while [[ $# -gt 0 ]]; do
    case $1 in
    --save_dir | --save-dir) save_dir=${2-} ;;
    --save_dir=* | --save-dir=*) save_dir=${1#*=} ;;
    esac
    shift
  done
}

find_spectap
[[ -n ${CONTAINER_IMAGE:-} ]] || say "CONTAINER_IMAGE is not set: configuration.json will name no container, and an upload refuses such runs"

# Without an upload, launch takes this process's place: signals, exit code and
# report are its own.
[[ -n ${SPECTAP_UPLOAD:-} ]] || exec "$spectap" launch "$@"

# With one, it runs as a child. Slurm may signal every process of the step or this
# one alone: the child gets what we get, and the reader of its output stays to the end.
check_upload
find_save_dir "$@"
child='' signals=0

# shellcheck disable=SC2317 # the trap calls it
pass_on() {
  signals=$((signals + 1))
  [[ -z $child ]] || kill -TERM "$child" 2>/dev/null || true
}

# await waits for a process, whatever signals come, and sets code.
await() {
  local before
  while true; do
    before=$signals
    code=0
    wait "$1" || code=$?
    [[ $signals != "$before" ]] || return 0
  done
}

# started follows the start of the child: a signal that came before it had an id
# is passed on now.
started() {
  child=$1
  [[ $signals = 0 ]] || kill -TERM "$child" 2>/dev/null || true
}

# hold_report passes lines on as they come and keeps the report for the end.
hold_report() {
  local line
  trap '' TERM INT HUP
  while IFS= read -r line || [[ -n $line ]]; do
    case $line in
    '<REPORT>'*) printf '%s\n' "$line" >"$work/report" ;;
    *) printf '%s\n' "$line" ;;
    esac
  done
}

work=$(mktemp -d)
trap 'rm -rf -- "$work"' EXIT
trap pass_on TERM INT HUP
mkfifo "$work/output"
hold_report <"$work/output" &
reader=$!
( # the server has no use for the bucket's keys
  unset SPECDEC_BENCH_S3_ENDPOINT SPECDEC_BENCH_S3_KEY_ID SPECDEC_BENCH_S3_SECRET
  exec "$spectap" launch "$@"
) >"$work/output" &
started $!
await "$child"
launched=$code
child=''
await "$reader"
report="<REPORT>FAIL: run.sh: spectap launch ended without a report (exit code $launched)</REPORT>"
[[ ! -s $work/report ]] || report=$(<"$work/report")

# 1 is a point that failed: the others are worth keeping.
result=$launched
if [[ $signals != 0 ]]; then
  say "interrupted: nothing is uploaded; later: spectap upload $save_dir $SPECTAP_UPLOAD"
elif [[ $launched -le 1 && -d $save_dir ]]; then
  "$spectap" upload "$save_dir" "$SPECTAP_UPLOAD" >&2 &
  started $!
  await "$child"
  if [[ $code != 0 && $launched = 0 ]]; then
    report="<REPORT>FAIL: run.sh: the sweep is complete in $save_dir, its upload is not (exit code $code)</REPORT>"
    result=$code
  fi
fi
printf '%s\n' "$report"
exit "$result"
