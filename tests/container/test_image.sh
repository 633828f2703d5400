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

# A submission of the demo against the image's own ground truth: the same bytes as on any machine, and silence.
# The platform's ground-truth folder always exists, here empty; /input is a symlink there, so it is one here.
mkdir -- "$work/empty" "$work/output" "$work/broken"
chmod 0777 -- "$work/output" "$work/broken"
"$root/.venv-test/bin/python" -c "
from pathlib import Path; from evaluation.demo import write_demo; write_demo(Path('$work/demo'))"
ln -s -- "$work/demo/submissions/finder" "$work/input"
run score --volume "$work/input:/input:ro" --volume "$work/output:/output" \
  --volume "$work/empty:/opt/ml/input/data/ground_truth:ro" "$IMAGE"
((code == 0)) || { tail -n 5 "$work/score.err"; failed "the demo's submission ended with exit code $code."; }
[[ ! -s $work/score.err ]] || { cat -- "$work/score.err"; failed "stderr is not empty on success."; }
cmp -- "$work/output/metrics.json" "$root/tests/golden/demo_finder.json" || failed "metrics.json is not the golden one."

# A submission without a file: exit code 1, one line for the participant, and no result.
run broken --volume "$work/empty:/input:ro" --volume "$work/broken:/output" \
  --volume "$work/demo/challenge:/opt/ml/input/data/ground_truth:ro" "$IMAGE"
((code == 1)) || { tail -n 5 "$work/broken.err"; failed "an empty submission ended with exit code $code; expected 1."; }
[[ $(tail -n 1 "$work/broken.err") == "Submission rejected: [empty-submission]"* ]] ||
  { tail -n 1 "$work/broken.err"; failed "the last line on stderr is not that of an empty submission."; }
[[ -z $(ls -A -- "$work/broken") ]] || failed "a rejected submission left files."

echo "The image was built, scored the demo to the byte and refused an empty submission; the full proof is not written yet."
