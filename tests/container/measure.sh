#!/usr/bin/env bash
# Measures the image under the platform's limits: memory and time of 100 images of 1500 x 1500 px, and its size.
#   tests/container/measure.sh [--images 100] [--format label_image]
#   IMAGE    the image's name (localhost/nuclei-evaluation:test); ./test.sh or ./build.sh builds it
set -euo pipefail

root=$(cd -- "$(dirname -- "$(readlink -f -- "${BASH_SOURCE[0]}")")/../.." && pwd)
export IMAGE=${IMAGE:-localhost/nuclei-evaluation:test}
# shellcheck source-path=SCRIPTDIR source=../../setup/container.sh
source "$root/setup/container.sh"
# shellcheck source-path=SCRIPTDIR source=../../setup/venv.sh
source "$root/setup/venv.sh"

find_engine || { echo "$no_engine" >&2; exit 75; }
prepare_venv "$root/.venv-test" "$root/requirements/test.lock"
cd "$root"
PYTHONPATH="$root:$root/tests" PYTHONSAFEPATH=1 exec "$root/.venv-test/bin/python" -m container.measure "$engine" "$IMAGE" "$@"
