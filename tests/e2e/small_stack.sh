# The extension on a thread with a small stack: see small_stack.c. Run by 'run', which sets LITEPACK_EXTENSION. Prints
# 'ok NAME' or 'FAILED NAME'.
set -uo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
# As much as musl gives by itself. Unoptimised code needs more.
size=128
if [[ $LITEPACK_EXTENSION == */debug/* ]]; then size=160; fi
cc -O1 -o "$place/host" "$here/small_stack.c" -l:libsqlite3.so.0 -lpthread || exit 1
if said=$("$place/host" "$LITEPACK_EXTENSION" "$place" "$size"); then
    echo "ok a stack of $size KiB (${said#ok } bytes of it were used)"
else
    echo "FAILED a stack of $size KiB: $said"
fi
echo "end of part"
