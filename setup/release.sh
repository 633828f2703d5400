#!/usr/bin/env bash
# What is published of a release: source and wheel, image and ground truth, the list of packages (SBOM), SHA-256 of all,
# and a signature of those.
#   setup/release.sh KEY [FOLDER]     KEY: private SSH key that signs (ssh-keygen -t ed25519)    FOLDER: release/
#   WITHOUT_IMAGE=1    leaves out image and ground truth, for a machine without container engine
#   RELEASE_PYTHON     a Python with setuptools (one is made in a folder that is removed again)
# What was committed is built, whatever lies about. Who downloads it: docs/development.md, "Releases".
set -euo pipefail

root=$(cd -- "$(dirname -- "$(readlink -f -- "${BASH_SOURCE[0]}")")/.." && pwd)
# shellcheck source-path=SCRIPTDIR source=container.sh
source "$root/setup/container.sh"
# shellcheck source-path=SCRIPTDIR source=sbom.sh
source "$root/setup/sbom.sh"

stop() { printf '%s\n' "$*" >&2; exit 1; }
key=${1:?"setup/release.sh KEY [FOLDER]"}
folder=${2:-$root/release}
[[ -f $key ]] || stop "There is no key '$key'. Make one: ssh-keygen -t ed25519 -f '$key'"
command -v ssh-keygen >/dev/null || stop "ssh-keygen is needed. On Debian, as root: apt-get install openssh-client"
[[ ! -e $folder ]] || stop "'$folder' is there already."
git -C "$root" diff --quiet HEAD -- || stop "There are changes that are not committed; a release is made of a commit."
version=$(version_of "$root")

work=$(mktemp -d)
trap 'rm -rf -- "$work"' EXIT
mkdir "$work/source" "$work/out"
git -C "$root" archive HEAD | tar --extract --directory "$work/source"
SOURCE_DATE_EPOCH=$(git -C "$root" log -1 --format=%ct)
export SOURCE_DATE_EPOCH
python=${RELEASE_PYTHON:-}
if [[ -z $python ]]; then
  python3.11 -m venv "$work/venv"
  "$work/venv/bin/pip" --disable-pip-version-check --quiet install 'setuptools>=68'
  python=$work/venv/bin/python
fi
for built in sdist wheel; do
  (cd "$work/source" && "$python" -c "import sys, setuptools.build_meta as of; of.build_$built(sys.argv[1])" "$work/out") \
    >"$work/build.log" 2>&1 || { tail -n 20 "$work/build.log" >&2; stop "Building the $built failed."; }
done

if [[ ${WITHOUT_IMAGE:-0} == 1 ]]; then
  sbom_of "$root/requirements/run.lock" "$version" >"$work/out/sbom.cdx.json"
else
  find_engine || stop "$no_engine"
  "$root/export.sh" "$work/out" >/dev/null
  "$engine" image inspect --format '{{.Id}}' "$image" >"$work/out/image-id.txt"
fi
git -C "$root" rev-parse HEAD >"$work/out/commit.txt"

cd -- "$work/out"
rm -f SHA256SUMS
sha256sum -- * >"$work/sums"
mv "$work/sums" SHA256SUMS
ssh-keygen -q -Y sign -f "$key" -n nuclei-evaluation SHA256SUMS 2>"$work/sign.log" ||
  { cat "$work/sign.log" >&2; stop "Signing failed."; }
mkdir -p -- "$(dirname -- "$folder")"
cp -r -- "$work/out" "$folder"

printf 'In %s, version %s:\n' "$folder" "$version"
ls -1 -- "$folder"
printf 'Publish the signing key elsewhere than beside the release (a line of allowed_signers):\n'
printf 'nuclei-evaluation namespaces="nuclei-evaluation" %s\n' "$(ssh-keygen -y -f "$key")"
