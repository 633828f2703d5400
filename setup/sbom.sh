# shellcheck shell=bash
# The list of the image's Python packages for those who look for known faults (an SBOM), from requirements/run.lock.
# Sourced, not run.

# CycloneDX 1.5 as JSON, the same bytes for the same lock. Hashes are those of all wheels that pip may take.
#   sbom_of LOCK VERSION
sbom_of() {
  awk -v version="$2" '
    function close_component() { if (open) printf "]}" }
    BEGIN {
      print "{\"bomFormat\": \"CycloneDX\", \"specVersion\": \"1.5\", \"version\": 1,"
      printf "\"metadata\": {\"component\": {\"type\": \"container\", \"name\": \"nuclei-evaluation\", \"version\": \"%s\"}},\n", version
      printf "\"components\": ["
    }
    match($0, /^[A-Za-z0-9._-]+==[^ ;\\]+/) {
      close_component()
      split(substr($0, RSTART, RLENGTH), part, "==")
      printf "%s\n{\"type\": \"library\", \"name\": \"%s\", \"version\": \"%s\", \"purl\": \"pkg:pypi/%s@%s\", \"hashes\": [", open ? "," : "", part[1], part[2], part[1], part[2]
      open = 1; hashes = 0
    }
    match($0, /--hash=sha256:[0-9a-f]+/) {
      printf "%s{\"alg\": \"SHA-256\", \"content\": \"%s\"}", hashes++ ? ", " : "", substr($0, RSTART + 14, RLENGTH - 14)
    }
    END { close_component(); print "]}" }
  ' "$1"
}
