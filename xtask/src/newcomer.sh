# Runs a command in a mount namespace that lacks programs, as root or as an ordinary user.
#
#   newcomer.sh root|user REPOSITORY TARGET PROGRAMS COMMAND...
#
# PROGRAMS are paths, divided by colons. For the user, who owns copies of the repository, of the target directory and of
# CARGO_HOME, nothing is copied: layers on top of them take what is written, and end with the namespace.
set -eu
who=$1 repository=$2 target=$3 programs=$4
shift 4

scratch=$(mktemp -d)
mount -t tmpfs tmpfs "$scratch"
chmod 755 "$scratch"
: > "$scratch/nothing"
mkdir "$scratch/empty" "$scratch/home"

# Below no layer: it would show them again.
hide() {
    IFS=:
    for program in $programs; do mount --bind "$scratch/nothing" "$program"; done
    unset IFS
    if [ -e "$target/fixtures" ]; then mount --bind "$scratch/empty" "$target/fixtures"; fi
    cd "$repository"
}

if [ "$who" = root ]; then
    hide
    exec env -u CI "$@"
fi

layers=0
# Puts a layer on top of a folder.
layer() {
    layers=$((layers + 1))
    mkdir "$scratch/upper$layers" "$scratch/work$layers"
    mount -t overlay overlay \
        -o "lowerdir=$1,upperdir=$scratch/upper$layers,workdir=$scratch/work$layers,metacopy=on" "$1"
}

# Root's own folder, which nobody else may enter.
home=$(dirname "$CARGO_HOME")
layer "$home"
chmod 755 "$home"
case "$repository" in "$home"/*) ;; *) layer "$repository" ;; esac
case "$target" in "$home"/* | "$repository"/*) ;; *) layer "$target" ;; esac
# A build beside this one may remove files meanwhile.
chown -R 65534:65534 "$repository" "$target" "$CARGO_HOME" "$scratch/home" 2> /dev/null || true
hide
exec setpriv --reuid=65534 --regid=65534 --clear-groups \
    env -u CI HOME="$scratch/home" CARGO_NET_OFFLINE=true "$@"
