#!/usr/bin/env bash
# All checks: ruff, mypy, import-linter, pytest, then the image if it can be built here.
#
#   ./test.sh             everything
#   ./test.sh -k name     only pytest, with these arguments (paths as seen from the repository)
#
# REQUIRE_CONTAINER=1 makes it a failure if the image cannot be tested, REQUIRE_BROWSER=1 if pages cannot be.
set -euo pipefail

root=$(cd -- "$(dirname -- "$(readlink -f -- "${BASH_SOURCE[0]}")")" && pwd)
# shellcheck source-path=SCRIPTDIR source=setup/venv.sh
source "$root/setup/venv.sh"

prepare_venv "$root/.venv-test" "$root/requirements-test.lock"
python=$root/.venv-test/bin/python
cd "$root"
export PYTHONPATH="$root" PYTHONSAFEPATH=1

if (($#)); then exec "$python" -m pytest "$@"; fi

failed=()
check() {
  local name=$1
  shift
  echo "--- $name"
  "$@" || failed+=("$name")
}

check ruff "$python" -m ruff check evaluation tests benchmarks
check mypy "$python" -m mypy
check import-linter "$python" -c 'from importlinter.cli import lint_imports_command; lint_imports_command()'

echo "--- pytest"
tests=0
# --verbose takes back the --quiet of pyproject.toml: the closing line then names itself.
"$python" -m pytest -n "${TEST_WORKERS:-2}" --verbose || tests=$?

browser=${CHROMIUM:-/usr/bin/chromium}
if [[ ! -x $browser ]]; then
  echo "Pages were NOT tested in a browser: there is no $browser (REQUIRE_BROWSER=1 makes this a failure)."
fi

image=0
tests/container/test_image.sh || image=$?
# 75: nothing failed, but there is no engine that could build the image.
if ((image == 75)) && [[ ${REQUIRE_CONTAINER:-0} != 1 ]]; then image=0; fi

if ((${#failed[@]})); then echo "Failed before the tests: ${failed[*]}; see above."; fi
if ((tests)); then exit "$tests"; fi
if ((image)); then exit 1; fi
((${#failed[@]} == 0))
