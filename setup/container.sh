# shellcheck shell=bash
# The container engine and the names of the image, for build.sh, export.sh and the test of the image.
# Sourced, not run.

# shellcheck disable=SC2034 # used by those who source this file
image=${IMAGE:-localhost/nuclei-evaluation:latest}

# Prints podman or docker: the first that is there and has an engine that answers (docker may be only a client).
find_engine() {
  local name
  for name in podman docker; do
    if command -v "$name" >/dev/null && "$name" info >/dev/null 2>&1; then
      echo "$name"
      return
    fi
  done
  return 1
}

no_engine="No container engine was found: neither podman nor docker answers. On Debian, as root: apt-get install podman buildah"

version_of() { sed -n 's/^__version__ = "\(.*\)"$/\1/p' "$1/evaluation/version.py"; }

# The commit, with "-dirty" if the files differ from it; "unknown" outside a clone.
revision_of() {
  local revision
  revision=$(git -C "$1" rev-parse HEAD 2>/dev/null) || { echo unknown; return; }
  if [[ -n $(git -C "$1" status --porcelain 2>/dev/null) ]]; then revision+=-dirty; fi
  echo "$revision"
}
