# Runs a command as the platform does: in a mount namespace whose /input is a link to a read-only folder.
#   platform_root.sh ROOT INPUT GROUND_TRUTH OUTPUT COMMAND…
set -eu
root=$1 input=$2 truth=$3 output=$4
shift 4
mount -t tmpfs none "$root"
for entry in /* /opt/*; do
  case $entry in /input | /output | /opt | /opt/ml | '/opt/*') continue ;; esac
  mkdir -p "$root${entry%/*}"
  if [ -L "$entry" ]; then cp -P "$entry" "$root$entry"
  elif [ -d "$entry" ]; then mkdir "$root$entry" && mount --rbind "$entry" "$root$entry"
  fi
done
truth_there=$root/opt/ml/input/data/ground_truth
mkdir -p "$root/opt/ml/input/data/input" "$truth_there" "$root/output"
mount --bind "$input" "$root/opt/ml/input/data/input"
mount -o remount,bind,ro "$root/opt/ml/input/data/input"
mount --bind "$truth" "$truth_there"
mount --bind "$output" "$root/output"
ln -s opt/ml/input/data/input "$root/input"
exec chroot "$root" "$@"
