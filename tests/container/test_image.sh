#!/usr/bin/env bash
# Builds the image and runs it as the platform does; see prove.py for what is checked.
# Exit code 0 passed, 1 failed, 75 there is no engine or no base image, so nothing was tested. The last line says which.
#   tests/container/test_image.sh --renew    writes the expected last lines anew; other arguments go to prove.py, too
#   TEST_PYTHON_IMAGE    the base image; without it a stand-in of Debian's packages is made (make_base.sh)
set -euo pipefail

here=$(cd -- "$(dirname -- "$(readlink -f -- "${BASH_SOURCE[0]}")")" && pwd)
root=$(cd -- "$here/../.." && pwd)
export IMAGE=${IMAGE:-localhost/nuclei-evaluation:test}
python=$root/.venv-test/bin/python
# shellcheck source-path=SCRIPTDIR source=../../setup/container.sh
source "$root/setup/container.sh"

echo "--- image"
not_tested() { echo "The image was NOT tested: $*"; exit 75; }
failed() { echo "The image FAILED: $*"; exit 1; }

find_engine || not_tested "neither podman nor docker answers (REQUIRE_CONTAINER=1 makes this a failure)."
work=$(mktemp -d)
trap 'rm -rf -- "$work"' EXIT

# How the host reaches its package index, as a configuration of pip.
index_of_host() {
  echo "[global]"
  "$python" -m pip config list |
    sed -nE "s/^(:env:|install|global)\.(index-url|extra-index-url|trusted-host|proxy|cert|timeout|retries)='(.*)'$/\2 = \3/p" |
    awk '!seen[$1]++'
}

base=${TEST_PYTHON_IMAGE:-}
options=()
if [[ -z $base ]]; then
  if [[ $engine != podman || $(id -u) != 0 ]] || ! command -v debootstrap >/dev/null; then
    not_tested "no base image; set TEST_PYTHON_IMAGE, or run as root with podman and debootstrap (REQUIRE_CONTAINER=1 makes this a failure)."
  fi
  base=$("$here/make_base.sh" | tail -n 1) || failed "the stand-in for the base image could not be made."
  # Works without user namespaces and overlay mounts. What is mounted leaves nothing in the image.
  index_of_host >"$work/pip.conf"
  options+=(--isolation chroot --volume "$work/pip.conf:/etc/pip.conf:ro")
  certificates=$(sed -n 's/^cert = //p' "$work/pip.conf")
  if [[ -f $certificates ]]; then options+=(--volume "$certificates:$certificates:ro"); fi
fi

before=$("$engine" image inspect --format '{{.Id}}' "$IMAGE" 2>/dev/null) || before=
# The first build fills the cache; the second takes all from it, but not the label of the other commit.
build() { "$root/build.sh" --build-arg PYTHON_IMAGE="$base" ${options[@]+"${options[@]}"} >"$work/build.log" 2>&1; }
{ REVISION=of-another-commit build && build; } ||
  { tail -n 30 "$work/build.log"; failed "it could not be built from '$base'."; }
tail -n 1 "$work/build.log"
# The image of the last time has lost its name; nothing else needs it.
if [[ -n $before && $before != "$("$engine" image inspect --format '{{.Id}}' "$IMAGE")" ]]; then
  "$engine" image rm "$before" >/dev/null 2>&1 || true
fi

cd "$root"
PYTHONPATH="$root:$root/tests" PYTHONSAFEPATH=1 "$python" -m container.prove "$engine" "$IMAGE" "$@" ||
  failed "see the lines above."
echo "The image was tested under the platform's limits, and passed."
