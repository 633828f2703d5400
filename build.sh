#!/usr/bin/env bash
# Builds the image: ./build.sh [--without-registry] [arguments for 'build', such as --build-arg PYTHON_IMAGE=…]
#   --without-registry    on a base of Debian's packages, where no image registry can be reached (docs/development.md)
#   IMAGE       its name (localhost/nuclei-evaluation:latest)
#   REVISION    the commit that its label names (that of this clone)
set -euo pipefail

root=$(cd -- "$(dirname -- "$(readlink -f -- "${BASH_SOURCE[0]}")")" && pwd)
# shellcheck source-path=SCRIPTDIR source=setup/container.sh
source "$root/setup/container.sh"

find_engine || { echo "$no_engine" >&2; exit 75; }

hint="If no image registry can be reached, as root on Debian: ./build.sh --without-registry (docs/development.md)"
if [[ ${1:-} == --without-registry ]]; then
  shift
  hint=
  # shellcheck source-path=SCRIPTDIR source=setup/without_registry.sh
  source "$root/setup/without_registry.sh"
  if why=$(why_no_base); then echo "There is no base image: $why" >&2; exit 75; fi
  work=$(mktemp -d)
  trap 'rm -rf -- "$work"' EXIT
  make_base_options "$root" "$work" || { echo "The base image could not be made." >&2; exit 1; }
  set -- "${base_options[@]}" "$@"
fi

"$engine" build --platform linux/amd64 --tag "$image" --file "$root/Dockerfile" \
  --label org.opencontainers.image.version="$(version_of "$root")" \
  --label org.opencontainers.image.revision="${REVISION:-$(revision_of "$root")}" \
  "$@" "$root" || {
  code=$?
  echo "The image was not built.${hint:+ $hint}" >&2
  exit "$code"
}

bytes=$("$engine" image inspect --format '{{.Size}}' "$image")
echo "Built $image with $engine: $((bytes / 1000000)) MB."
