#!/usr/bin/env bash
# Writes what is uploaded to the platform: the image and the ground truth; and the list of the image's packages (an SBOM),
# and the SHA-256 of all.
#   ./export.sh [FOLDER] [GROUND_TRUTH]     FOLDER: export/    GROUND_TRUTH: ground_truth/
#   IMAGE    the image's name (localhost/nuclei-evaluation:latest); build it first with ./build.sh
set -euo pipefail

root=$(cd -- "$(dirname -- "$(readlink -f -- "${BASH_SOURCE[0]}")")" && pwd)
# shellcheck source-path=SCRIPTDIR source=setup/container.sh
source "$root/setup/container.sh"
# shellcheck source-path=SCRIPTDIR source=setup/sbom.sh
source "$root/setup/sbom.sh"

folder=${1:-$root/export}
ground_truth=${2:-$root/ground_truth}
stop() { printf '%s\n' "$*" >&2; exit 1; }

find_engine || stop "$no_engine"
"$engine" image inspect "$image" >/dev/null 2>&1 || stop "There is no image '$image'. Run ./build.sh first."
[[ -f $ground_truth/challenge.toml ]] || stop "There is no challenge.toml in '$ground_truth'."

# What the platform checks when an image is uploaded.
about=$("$engine" image inspect \
  --format '{{.Os}}/{{.Architecture}} {{or .Config.User "none"}} {{or .Config.Entrypoint "none"}}' "$image")
read -r system user entrypoint <<<"$about"
[[ $system == linux/amd64 ]] || stop "'$image' is $system; the platform takes linux/amd64."
name=${user%%:*}
if [[ $name == none || $name == root || $name =~ ^0+$ ]]; then
  stop "'$image' runs as '$user'; the platform wants a user other than root."
fi
[[ $entrypoint != none && $entrypoint != "[]" ]] || stop "'$image' has no entrypoint."

# The image must be that of the files here: a build that failed leaves the former image under the same name.
built=$("$engine" image inspect --format '{{index .Config.Labels "org.opencontainers.image.revision"}}' "$image")
here=$(revision_of "$root")
if [[ $built != "$here" ]]; then stop "'$image' was built of commit '$built', but here is '$here'. Run ./build.sh again."; fi
if [[ $here == *-dirty ]]; then stop "'$image' was built of changes that are not committed. Commit them, then run ./build.sh again."; fi

mkdir -p -- "$folder"
if [[ $folder == "$root/export" ]]; then echo '*' >"$folder/.gitignore"; fi
folder=$(cd -- "$folder" && pwd)
work=$(mktemp -d -- "$folder/.exporting.XXXXXX")
trap 'rm -rf -- "$work"' EXIT
name=nuclei-evaluation-image-$(version_of "$root")

# Gzip without name and time; the format that both engines can write and the platform reads.
format=()
if [[ $engine == podman ]]; then format=(--format docker-archive); fi
"$engine" save ${format[@]+"${format[@]}"} "$image" | gzip -n >"$work/$name.tar.gz"
tar --extract --to-stdout --gzip --file "$work/$name.tar.gz" manifest.json >/dev/null 2>&1 ||
  stop "'$engine save' did not write an image."

# The same files give the same bytes: sorted, with fixed times, owners and modes, and without litter. Links become files.
tar --create --sort=name --mtime=@0 --owner=0 --group=0 --numeric-owner --mode=u=rwX,go=rX --format=gnu \
  --dereference --hard-dereference \
  --exclude=.DS_Store --exclude=__MACOSX --exclude='._*' --exclude=Thumbs.db --exclude=desktop.ini \
  --exclude=__pycache__ --exclude='.git*' --exclude='.*.sw?' --exclude='*~' \
  --directory "$ground_truth" . | gzip -n >"$work/ground_truth.tar.gz"

sbom_of "$root/requirements/run.lock" "$(version_of "$root")" >"$work/sbom.cdx.json"
(cd "$work" && sha256sum -- "$name.tar.gz" ground_truth.tar.gz sbom.cdx.json >SHA256SUMS)
mv -f -- "$work/$name.tar.gz" "$work/ground_truth.tar.gz" "$work/sbom.cdx.json" "$work/SHA256SUMS" "$folder/"

cat <<END
In $folder:
  $name.tar.gz     upload as a method of the phase (Admin, Methods, Add method)
  ground_truth.tar.gz     upload as the ground truth of the phase (Admin, Ground Truths, Add ground truth)
  sbom.cdx.json     the image's Python packages, for those who look for known faults (CycloneDX)
  SHA256SUMS
END
cat -- "$folder/SHA256SUMS"
