#!/usr/bin/env bash
# Adds to the .venv of ./evaluate.sh what reads imports: zarr, h5py, roifile and pyarrow. They take some 230 MB, a third of all,
# and only 'compare' and 'convert' use them; so they are not there from the start.
set -euo pipefail

root=$(cd -- "$(dirname -- "$(readlink -f -- "${BASH_SOURCE[0]}")")/.." && pwd)
# shellcheck source-path=SCRIPTDIR source=venv.sh
source "$root/setup/venv.sh"

prepare_venv "$root/.venv" "$root/requirements/report.lock"
logged "$root/.venv/setup.log" "$root/.venv/bin/python" -I -m pip --disable-pip-version-check --no-input install \
  --require-hashes --only-binary :all: --requirement "$root/requirements/imports.lock"
tell "Imports can be read."
