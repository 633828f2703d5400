# shellcheck shell=bash
# What ./build.sh --without-registry adds: a base of Debian's packages, and the way to this machine's package index.
# Sourced, not run. Needs setup/container.sh, and $engine.

# Why an image cannot be built without a registry here; fails if it can.
why_no_base() {
  if [[ $engine == podman && $(id -u) == 0 ]] && command -v debootstrap >/dev/null; then return 1; fi
  echo "a base of Debian's packages is made as root, with podman and debootstrap: apt-get install podman buildah runc debootstrap"
}

# Sets $base_options for 'build'. FOLDER is mounted from, and is yours to remove.
#   make_base_options ROOT FOLDER
make_base_options() {
  local root=$1 folder=$2 base certificates
  base=$("$root/setup/make_base.sh" | tail -n 1) || return
  index_of_host "$root" >"$folder/pip.conf"
  # Works without user namespaces and overlay mounts. What is mounted leaves nothing in the image.
  base_options=(--build-arg "PYTHON_IMAGE=$base" --isolation chroot --volume "$folder/pip.conf:/etc/pip.conf:ro")
  certificates=$(sed -n 's/^cert = //p' "$folder/pip.conf")
  if [[ -f $certificates ]]; then base_options+=(--volume "$certificates:$certificates:ro"); fi
}

# How this machine reaches its package index, as a configuration of pip.
index_of_host() {
  local python
  echo "[global]"
  for python in "$1/.venv-test/bin/python" "$1/.venv/bin/python" python3; do
    if "$python" -m pip --version >/dev/null 2>&1; then break; fi
  done
  "$python" -m pip config list 2>/dev/null |
    sed -nE "s/^(:env:|install|global)\.(index-url|extra-index-url|trusted-host|proxy|cert|timeout|retries)='(.*)'$/\2 = \3/p" |
    awk '!seen[$1]++'
}
