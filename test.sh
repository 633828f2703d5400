#!/usr/bin/env bash
# Checks (ruff, mypy, import-linter) and tests (pytest).
#
#   ./test.sh             what needs nothing but Python and takes some minutes; one line says what it left out
#   ./test.sh --all       every test: also slow ones, the documents' commands, real data, pages in a browser, and the image
#   ./test.sh --image [CHALLENGE] [SUBMISSION] [--jobs]   dry run: the built image scores a submission as on the platform
#   ./test.sh --campaign  for hours: mutants of the program, long fuzzing, the whole hostile corpus in the image
#   ./test.sh -k name     only pytest, with these arguments (paths as seen from the repository); nothing is left out
#
# REQUIRE_CONTAINER=1 makes it a failure if the image cannot be tested, REQUIRE_BROWSER=1 if pages cannot be.
set -euo pipefail

root=$(cd -- "$(dirname -- "$(readlink -f -- "${BASH_SOURCE[0]}")")" && pwd)
# shellcheck source-path=SCRIPTDIR source=setup/venv.sh
source "$root/setup/venv.sh"

prepare_venv "$root/.venv-test" "$root/requirements/test.lock"
python=$root/.venv-test/bin/python
here=$PWD
cd "$root"
export PYTHONPATH="$root:$root/library" PYTHONSAFEPATH=1
unset PYTHONDONTWRITEBYTECODE  # compiled once, not by every worker and every program that a test starts

mode=${1:---fast}
case $mode in
  --fast | --all | --campaign) if (($# > 1)); then echo "$mode takes no other arguments." >&2; exit 2; fi ;;
  --image)
    # shellcheck source-path=SCRIPTDIR source=setup/container.sh
    source "$root/setup/container.sh"
    find_engine || { echo "$no_engine" >&2; exit 75; }
    "$engine" image inspect "$image" >/dev/null 2>&1 || { echo "There is no image '$image'. Run ./build.sh first." >&2; exit 75; }
    cd -- "$here"
    PYTHONPATH+=":$root/tests" exec "$python" -m container.dry_run "$engine" "$image" "${@:2}"
    ;;
  *) exec "$python" -m pytest "$@" ;;
esac

# Files of tests that were seen to pass on what resembles Windows and macOS.
elsewhere=(cli.py compare.py conversion.py csv.py demo.py errors.py jobs.py leaderboard.py results_files.py)
elsewhere+=(submission_files.py tiff.py writers.py xml.py)

failed=()
check() {
  local name=$1
  shift
  echo "--- $name"
  "$@" || failed+=("$name")
}

# 75: nothing failed, but there is no engine that could build the image.
image() {
  local code=0
  "$root/tests/container/test_image.sh" "$@" || code=$?
  ((code == 0 || (code == 75 && ${REQUIRE_CONTAINER:-0} != 1)))
}

if [[ $mode == --campaign ]]; then
  cd "$root/tests"
  export PYTHONPATH="$root:$root/library:$root/tests"
  check mutants "$python" mutants.py
  check fuzzing "$python" -m fuzz --inputs "${FUZZ_INPUTS:-20000}" --workers "${TEST_WORKERS:-2}"
  check image image --whole-corpus
  if ((${#failed[@]})); then echo "Failed: ${failed[*]}; see above."; fi
  ((${#failed[@]} == 0))
  exit
fi

# What reads the source runs beside the tests; what it finds is told after them.
checks=$(mktemp)
trap 'rm -f -- "$checks"' EXIT
(
  check ruff "$python" -m ruff check evaluation library tests benchmarks examples
  check mypy "$python" -m mypy
  check import-linter "$python" -c 'from importlinter.cli import lint_imports_command; lint_imports_command()'
  ((${#failed[@]} == 0))
) >"$checks" 2>&1 &
checking=$!

tests=0
if [[ $mode == --all ]]; then
  prepare_venv "$root/.venv-docs" "$root/requirements/docs.lock"  # for the test that builds the site
  for other in python3.12 python3.13 python3.14; do
    if ! "$other" -c '' 2>/dev/null; then continue; fi
    PYTHON=$other prepare_venv "$root/.venv-$other" "$root/requirements/test.lock"
    echo "--- pytest: the fast tests with $other"
    "$root/.venv-$other/bin/python" -m pytest -n "${TEST_WORKERS:-2}" --fast || tests=$?
  done
  for system in win32 darwin; do
    echo "--- pytest: commands on what resembles $system (tests/other_systems)"
    OTHER_SYSTEM=$system "$python" -m pytest -n "${TEST_WORKERS:-2}" --fast "${elsewhere[@]/#/tests/test_}" || tests=$?
  done
fi
echo "--- pytest"
options=()
if [[ $mode == --fast ]]; then options=(--fast); fi
# --verbose takes back the --quiet of pyproject.toml: the closing line then names itself.
"$python" -m pytest -n "${TEST_WORKERS:-2}" --verbose ${options[@]+"${options[@]}"} || tests=$?
wait "$checking" || { failed=(checks) && cat -- "$checks"; }

image=0
if [[ $mode == --all ]]; then
  echo "--- times beside reading the pixels alone (a report: nothing depends on it)"
  "$python" -m benchmarks.files --rounds 2 || true
  browser=${CHROMIUM:-/usr/bin/chromium}
  if [[ ! -x $browser ]]; then
    echo "Pages were NOT tested in a browser: there is no $browser (REQUIRE_BROWSER=1 makes this a failure)."
  fi
  image || image=1
fi

if ((${#failed[@]})); then echo "Failed beside the tests: ruff, mypy or import-linter; see above."; fi
if ((tests)); then exit "$tests"; fi
((image == 0 && ${#failed[@]} == 0))
