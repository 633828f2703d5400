#!/usr/bin/env bash
# A stand-in for python:3.11-slim on a machine that reaches Debian's packages but no image registry: Debian bookworm with
# its own Python 3.11, as the image localhost/nuclei-evaluation-base. Prints the image's name as its last line.
# Needs root, podman and debootstrap. The archive is kept in ~/.cache/nuclei-evaluation (or below XDG_CACHE_HOME).
set -euo pipefail

name=localhost/nuclei-evaluation-base:bookworm
cache=${XDG_CACHE_HOME:-$HOME/.cache}/nuclei-evaluation
archive=$cache/base-bookworm.tar

if ! podman image exists "$name"; then
  if [[ ! -s $archive ]]; then
    mkdir -p -- "$cache"
    # From where this machine's own apt gets its packages.
    # shellcheck disable=SC2016 # apt-get expands it
    mirror=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' | grep -m1 -E '/debian/?$' || true)
    work=$(mktemp -d -- "$cache/making.XXXXXX")
    trap 'rm -rf --one-file-system -- "$work"' EXIT
    debootstrap --variant=minbase --include=python3,python3-venv,ca-certificates bookworm "$work/root" \
      ${mirror:+"$mirror"} >"$work/log" 2>&1 || { tail -n 20 "$work/log" >&2; exit 1; }
    rm -rf -- "$work"/root/var/cache/apt/* "$work"/root/var/lib/apt/lists/*
    tar --create --numeric-owner --one-file-system --directory "$work/root" --file "$work/base.tar" .
    mv -- "$work/base.tar" "$archive"
  fi
  podman import --quiet "$archive" "$name" >/dev/null
fi
printf '%s\n' "$name"
