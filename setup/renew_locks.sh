#!/usr/bin/env bash
# Renews the locks from pyproject.toml with Python 3.11, then lets the golden results judge them.
#   setup/renew_locks.sh [--upgrade]     --upgrade: newer versions of everything, not only what pyproject.toml asks for
# The locks stay as they were if one cannot be resolved; if the goldens differ the new ones are there, to be looked at.
set -euo pipefail

root=$(cd -- "$(dirname -- "$(readlink -f -- "${BASH_SOURCE[0]}")")/.." && pwd)
command -v python3.11 >/dev/null || { echo "Python 3.11 is needed: the locks are made for it." >&2; exit 1; }
work=$(mktemp -d)
trap 'rm -rf -- "$work"' EXIT

python3.11 -m venv "$work/venv"
"$work/venv/bin/pip" --disable-pip-version-check --quiet install pip-tools
cp -- "$root"/pyproject.toml "$root"/requirements/*.lock "$work"
cd -- "$work"
export CUSTOM_COMPILE_COMMAND="setup/renew_locks.sh"
compile() {
  venv/bin/pip-compile --quiet --strip-extras --no-annotate --no-emit-index-url --no-emit-find-links \
    --no-emit-options --generate-hashes "$@"
}
compile "$@" --extra report --extra notebook --extra imports --extra cluster --extra test --output-file test.lock pyproject.toml
compile "$@" --constraint test.lock --output-file run.lock pyproject.toml
compile "$@" --constraint test.lock --extra report --output-file report.lock pyproject.toml
compile "$@" --constraint test.lock --extra report --extra imports --output-file imports.lock pyproject.toml
compile "$@" --extra benchmark --output-file benchmark.lock pyproject.toml
echo "mkdocs>=1.6,<2" | compile "$@" --output-file docs.lock -
cp -- run.lock report.lock imports.lock test.lock benchmark.lock docs.lock "$root/requirements"

exec "$root/test.sh" tests/test_golden.py tests/test_results_files.py
