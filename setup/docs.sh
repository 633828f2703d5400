#!/usr/bin/env bash
# Builds the documents as a site (mkdocs.yml); a link or an anchor that leads nowhere is an error.
#   setup/docs.sh [FOLDER]     FOLDER: build/site if not given
set -euo pipefail

root=$(cd -- "$(dirname -- "$(readlink -f -- "${BASH_SOURCE[0]}")")/.." && pwd)
# shellcheck source-path=SCRIPTDIR source=venv.sh
source "$root/setup/venv.sh"

site=$(readlink -m -- "${1:-$root/build/site}")
prepare_venv "$root/.venv-docs" "$root/requirements/docs.lock"
cd -- "$root"
rm -rf -- build/pages
mkdir -p -- build/pages
# The documents, and what they link to.
cp --parents -r -t build/pages -- README.md CHANGELOG.md CITATION.cff .github/SECURITY.md docs examples \
  benchmarks/README.md benchmarks/times.svg library/README.md library/nuclei_metrics/papers.md
.venv-docs/bin/python -m mkdocs --quiet build --strict --site-dir "$site"
