# shellcheck shell=bash
# Virtual environments from lock files, for evaluate.sh and test.sh: made at the first call, found at the later ones.
# Sourced, not run. The one function to call is
#
#   prepare_venv FOLDER LOCK    FOLDER then holds exactly the packages that LOCK lists
#
# FOLDER/.lock-stamp is empty while FOLDER is being made and holds the hashes of the lock and of the interpreter when it
# is done, so an interrupted set-up, another lock and another Python are all seen at the next call. A folder without a
# stamp was made by somebody else and is never touched.

prepare_venv() {
  local folder=$1 lock=$2
  if venv_is_current "$folder" "$lock"; then return; fi
  # Two first calls at once: the second waits here, then finds the work done.
  exec 9<"$lock"
  if command -v flock >/dev/null; then flock 9; fi
  if ! venv_is_current "$folder" "$lock"; then make_venv "$folder" "$lock"; fi
  exec 9<&-
}

venv_is_current() {
  local folder=$1 lock=$2
  [[ -s $folder/.lock-stamp && -x $folder/bin/python && $(<"$folder/.lock-stamp") == "$(venv_stamp "$folder" "$lock")" ]]
}

venv_stamp() {
  local folder=$1 lock=$2
  hash_of "$lock"
  hash_of "$(readlink -f "$folder/bin/python")"
}

hash_of() {
  if command -v sha256sum >/dev/null; then sha256sum <"$1"; else shasum -a 256 <"$1"; fi
}

make_venv() {
  local folder=$1 lock=$2 python
  if [[ -e $folder && ! -e $folder/.lock-stamp ]]; then
    stop "'$folder' is there, but was not made by this script. Move it away or remove it, then try again."
  fi
  python=$(find_python) || stop "Python 3.11 to 3.14 was not found (others are not tested). On Debian 12 or 13, as root: apt-get install python3 python3-venv"
  have_ensurepip "$python"
  tell "Setting up '$folder' from ${lock##*/} (once; a minute or two) ..."
  rm -rf -- "$folder"
  mkdir -- "$folder"
  : >"$folder/.lock-stamp"
  echo '*' >"$folder/.gitignore"
  logged "$folder/setup.log" "$python" -I -m venv "$folder"
  logged "$folder/setup.log" "$folder/bin/python" -I -m pip --disable-pip-version-check --no-input install \
    --require-hashes --only-binary :all: --no-compile --requirement "$lock"
  # The packages' own tests: 100 MB that nothing imports. Python compiles the modules that are used.
  find "$folder" -type d -name tests -path '*/site-packages/*' -prune -exec rm -rf -- {} +
  venv_stamp "$folder" "$lock" >"$folder/.lock-stamp"
  tell "Ready."
}

# The locks are made for Python 3.11, so that is looked for first. $PYTHON asks for another.
find_python() {
  local name
  for name in ${PYTHON:+"$PYTHON"} python3.11 python3 python3.12 python3.13 python3.14; do
    if "$name" -I -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 14))' 2>/dev/null; then
      command -v "$name"
      return
    fi
  done
  return 1
}

# Debian's Python comes without the part of venv that installs pip; it is in python3-venv.
have_ensurepip() {
  local python=$1
  if "$python" -I -c 'import ensurepip, venv' 2>/dev/null; then return; fi
  if [[ $(id -u) == 0 ]] && command -v apt-get >/dev/null; then
    tell "Installing Debian's python3-venv ..."
    install_debian_packages python3-venv
    if "$python" -I -c 'import ensurepip, venv' 2>/dev/null; then return; fi
  fi
  stop "$python cannot make virtual environments. On Debian, as root: apt-get install python3-venv"
}

install_debian_packages() {
  local log
  log=$(mktemp)
  logged "$log" apt-get update
  logged "$log" env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "$@"
  rm -f -- "$log"
}

# Run a command; what it prints is shown only if it fails.
logged() {
  local log=$1 code=0
  shift
  "$@" >"$log" 2>&1 || code=$?
  if ((code)); then
    tail -n 40 "$log" >&2 || true
    stop "Set-up failed (exit code $code): $*"
  fi
}

tell() { printf '%s\n' "$*" >&2; }

stop() {
  tell "$@"
  exit 1
}
