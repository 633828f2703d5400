#!/usr/bin/env bash
# Builds the image: ./build.sh [arguments for 'build', such as --build-arg PYTHON_IMAGE=… or --volume …]
#   IMAGE       its name (localhost/nuclei-evaluation:latest)
#   REVISION    the commit that its label names (that of this clone)
set -euo pipefail

root=$(cd -- "$(dirname -- "$(readlink -f -- "${BASH_SOURCE[0]}")")" && pwd)
# shellcheck source-path=SCRIPTDIR source=setup/container.sh
source "$root/setup/container.sh"

find_engine || { echo "$no_engine" >&2; exit 75; }

"$engine" build --platform linux/amd64 --tag "$image" --file "$root/Dockerfile" \
  --label org.opencontainers.image.version="$(version_of "$root")" \
  --label org.opencontainers.image.revision="${REVISION:-$(revision_of "$root")}" \
  "$@" "$root"

bytes=$("$engine" image inspect --format '{{.Size}}' "$image")
echo "Built $image with $engine: $((bytes / 1000000)) MB."
