#!/usr/bin/env bash
# Builds the image and runs it as the platform does: other user, no network, read-only root, limits.
# Exit code 0 passed, 1 failed, 75 there is no engine or no base image, so nothing was tested. The last line says which.
#   TEST_PYTHON_IMAGE    the base image; without it a stand-in of Debian's packages is made (make_base.sh)
set -euo pipefail

here=$(cd -- "$(dirname -- "$(readlink -f -- "${BASH_SOURCE[0]}")")" && pwd)
root=$(cd -- "$here/../.." && pwd)
export IMAGE=${IMAGE:-localhost/nuclei-evaluation:test}
# shellcheck source-path=SCRIPTDIR source=../../setup/container.sh
source "$root/setup/container.sh"

echo "--- image"
not_tested() { echo "The image was NOT tested: $*"; exit 75; }
failed() { echo "The image FAILED: $*"; exit 1; }

engine=$(find_engine) || not_tested "neither podman nor docker answers (REQUIRE_CONTAINER=1 makes this a failure)."
work=$(mktemp -d)
trap 'rm -rf -- "$work"' EXIT

base=${TEST_PYTHON_IMAGE:-}
options=()
if [[ -z $base ]]; then
  if [[ $engine != podman || $(id -u) != 0 ]] || ! command -v debootstrap >/dev/null; then
    not_tested "no base image; set TEST_PYTHON_IMAGE, or run as root with podman and debootstrap."
  fi
  base=$("$here/make_base.sh" | tail -n 1) || failed "the stand-in for the base image could not be made."
  # Works without user namespaces and overlay mounts. The host's certificates and pip settings lead to its package index.
  options+=(--isolation chroot)
  for path in /etc/ssl/certs/ca-certificates.crt /etc/pip.conf; do
    if [[ -f $path ]]; then options+=(--volume "$path:$path:ro"); fi
  done
fi
"$root/build.sh" --build-arg PYTHON_IMAGE="$base" ${options[@]+"${options[@]}"} >"$work/build.log" 2>&1 ||
  { tail -n 30 "$work/build.log"; failed "it could not be built from '$base'."; }
tail -n 1 "$work/build.log"

engine_options=()
# crun does not start where control groups are in hybrid mode; runc does.
if [[ $engine == podman ]]; then engine_options+=(--cgroup-manager cgroupfs); fi
if [[ $engine == podman ]] && command -v runc >/dev/null; then engine_options+=(--runtime runc); fi

# run NAME OPTIONS… : exit code in $code, output in $work/NAME.out and $work/NAME.err
run() {
  local name=$1
  shift
  code=0
  "$engine" ${engine_options[@]+"${engine_options[@]}"} run --rm --network none --read-only --tmpfs /tmp:rw,mode=1777 \
    --cap-drop ALL --security-opt no-new-privileges --memory 7g --memory-swap 7g --pids-limit 256 --cpus 2 \
    --ulimit nofile=1024:1024 --ulimit nproc=1024:1024 "$@" \
    >"$work/$name.out" 2>"$work/$name.err" || code=$?
}

python_in_image=(--entrypoint /opt/venv/bin/python "$IMAGE" -c)
run user "${python_in_image[@]}" 'import evaluation.cli, evaluation.pipeline, os, sys; sys.exit(os.getuid() == 0)'
((code == 0)) || { tail -n 5 "$work/user.err"; failed "the program does not import as the image's user."; }

# shellcheck disable=SC2016 # the shell in the image expands it
run tools --entrypoint /bin/sh "$IMAGE" -c \
  'for tool in gcc cc /opt/venv/bin/pip; do if command -v "$tool"; then exit 1; fi; done'
((code == 0)) || failed "it holds $(cat -- "$work/tools.out")."

# A submission that is empty: every case is missing, and the preset gives those the worst score.
mkdir -- "$work/input" "$work/output" "$work/uploaded"
chmod 0777 -- "$work/output"
run score --volume "$work/input:/input:ro" --volume "$work/output:/output" \
  --volume "$work/uploaded:/opt/ml/input/data/ground_truth:ro" "$IMAGE"
case $code in
  0) [[ -s $work/output/metrics.json ]] || failed "exit code 0 without metrics.json." ;;
  1) [[ ! -e $work/output/metrics.json ]] || failed "a rejected submission left metrics.json." ;;
  *) tail -n 5 "$work/score.err"; failed "an empty submission ended with exit code $code; expected 0 or 1." ;;
esac
tail -n 1 "$work/score.err"

echo "The image was built and started as the platform does; the full proof is not written yet."
