#!/usr/bin/env bash
# The program of this repository, ready to run: ./evaluate.sh demo, ./evaluate.sh score --help, …
# Needs Python 3.11 to 3.14; the packages of requirements/report.lock go into .venv beside this script at the first call.
set -euo pipefail

root=$(cd -- "$(dirname -- "$(readlink -f -- "${BASH_SOURCE[0]}")")" && pwd)
# shellcheck source-path=SCRIPTDIR source=setup/venv.sh
source "$root/setup/venv.sh"

prepare_venv "$root/.venv" "$root/requirements/report.lock"

# Safe path: a folder or file of the same name where you stand never replaces a module.
export PYTHONPATH="$root:$root/library" PYTHONSAFEPATH=1
exec "$root/.venv/bin/python" -m evaluation "$@"
