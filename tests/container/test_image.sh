#!/usr/bin/env bash
# Builds the image and runs it as the platform does; see prove.py for what is checked.
# Exit code 0 passed, 1 failed, 75 there is no engine or no base image, so nothing was tested. The last line says which.
#   tests/container/test_image.sh --renew    writes the expected last lines anew; other arguments go to prove.py, too
#   TEST_PYTHON_IMAGE    the base image; without it: ./build.sh --without-registry
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

base=${TEST_PYTHON_IMAGE:-}
options=(--build-arg "PYTHON_IMAGE=$base")
base_options=("${options[@]}")
if [[ -z $base ]]; then
  # shellcheck source-path=SCRIPTDIR source=../../setup/without_registry.sh
  source "$root/setup/without_registry.sh"
  if why=$(why_no_base); then not_tested "no base image; set TEST_PYTHON_IMAGE, or $why (REQUIRE_CONTAINER=1 makes this a failure)."; fi
  base="Debian's packages"
  make_base_options "$root" "$work" || failed "the base image could not be made."
  options=(--without-registry)
fi

before=$("$engine" image inspect --format '{{.Id}}' "$IMAGE" 2>/dev/null) || before=
# The first build fills the cache; the second takes all from it, but not the label of the other commit.
build() { "$root/build.sh" "${options[@]}" >"$work/build.log" 2>&1; }
{ REVISION=of-another-commit build && build; } ||
  { tail -n 30 "$work/build.log"; failed "it could not be built from '$base'."; }
tail -n 1 "$work/build.log"
# The image of the last time has lost its name; nothing else needs it.
if [[ -n $before && $before != "$("$engine" image inspect --format '{{.Id}}' "$IMAGE")" ]]; then
  "$engine" image rm "$before" >/dev/null 2>&1 || true
fi

cd "$root"
PYTHONPATH="$root:$root/library:$root/tests" PYTHONSAFEPATH=1 "$python" -m container.prove "$engine" "$IMAGE" "$@" ||
  failed "see the lines above."
PYTHONPATH="$root:$root/library:$root/tests" PYTHONSAFEPATH=1 "$python" -m container.dry_run "$engine" "$IMAGE" --output "$work/dry_run" \
  >"$work/dry_run.log" 2>&1 || { cat "$work/dry_run.log"; failed "the dry run of the demo (./test.sh --image)."; }
PYTHONPATH="$root:$root/library:$root/tests" PYTHONSAFEPATH=1 "$python" -m container.example_algorithm "$engine" "${base_options[@]}" \
  >"$work/algorithm.log" 2>&1 || { tail -n 30 "$work/algorithm.log"; failed "the example algorithm of the kit."; }
tail -n 1 "$work/algorithm.log"
echo "The image was tested under the platform's limits, and passed."
