# shellcheck shell=bash
# The container engine and the names of the image, for build.sh, export.sh and the test of the image.
# Sourced, not run.

# shellcheck disable=SC2034 # used by those who source this file
image=${IMAGE:-localhost/nuclei-evaluation:latest}

# Sets $engine to podman or docker: the first that is there and has an engine that answers (docker may be only a client).
find_engine() {
  for engine in podman docker; do
    if ! command -v "$engine" >/dev/null; then continue; fi
    if "$engine" info >/dev/null 2>&1; then return; fi
    # Where layers cannot be mounted over each other, as inside a container, podman can still copy them.
    if [[ $engine == podman ]] && STORAGE_DRIVER=vfs podman info >/dev/null 2>&1; then
      export STORAGE_DRIVER=vfs
      return
    fi
  done
  return 1
}

no_engine="No container engine was found: neither podman nor docker answers. On Debian, as root: apt-get install podman buildah"

version_of() { sed -n 's/^__version__ = "\(.*\)"$/\1/p' "$1/evaluation/files/results/__init__.py"; }

# The commit, with "-dirty" if the files differ from it; "unknown" outside a clone. The clone may be another user's.
revision_of() {
  local revision
  local -a git=(git -c safe.directory='*' -C "$1")
  revision=$("${git[@]}" rev-parse --verify HEAD 2>/dev/null) || { echo unknown; return; }
  if [[ -n $("${git[@]}" status --porcelain 2>/dev/null) ]]; then revision+=-dirty; fi
  echo "$revision"
}
