#!/bin/bash
# SPDX-License-Identifier: MIT
#
# Rooms, and which may know which. An #include is an arrow; so is a call, by
# which the rooms of the server are told apart, since they share one header.

cd "${top_srcdir:?set by tests/run}" || exit 1
count=0

judge() { # WHAT SEEN: nothing seen is good
	count=$((count + 1))
	if [ -z "$2" ]; then
		echo "ok $count - $1"
	else
		echo "not ok $count - $1"
		printf '%s\n' "$2" | sed 's/^/# seen: /'
	fi
}

# arrows ROOM ALLOWED...: the includes of its files that lead elsewhere. The
# verb that looks at the machine is a room of its own in that of the verbs.
arrows() {
	local room=$1 allowed apart=cli/doctor
	shift
	allowed=$(printf '|%s' "$room/" "$@")
	[ "$room" != "$apart" ] || apart=
	find "$room" -path "$apart" -prune -o -name '*.[ch]' -exec grep -HE '^#include "[a-z]+/' {} + |
		grep -vE ":#include \"(${allowed#|})"
}

while read -r room allowed; do
	# shellcheck disable=SC2086 # a list of words
	judge "$room knows nothing but: ${allowed:-itself}" \
		"$(arrows "$room" $allowed)"
done <<'END'
base
shm base/
lib/layout base/ lib/reserved.h
lib/descriptor base/ shm/
lib/number base/
lib/move base/ lib/number/
lib/tensor base/ lib/(layout|number|move)/
lib/io base/
lib/file base/ lib/(layout|number|move|tensor)/
lib/copy base/ lib/(layout|number|move|tensor|file|io|cuda)/ lib/reserved.h
lib/save base/ lib/(layout|number|move|tensor|file|io|copy)/ lib/reserved.h
lib/dlpack base/ lib/(layout|tensor|cuda)/
lib/cuda base/ lib/(number|move)/
lib/store base/ shm/ lib/(layout|descriptor|number|move|tensor|file|io|copy|save|cuda)/ lib/reserved.h
lib/channel base/ shm/ lib/(layout|descriptor|number|move|tensor|file|io|copy|save|store)/ lib/reserved.h
lib/set base/ shm/ lib/(layout|number|move|tensor|copy|cuda|store)/ lib/reserved.h
lib/data base/ lib/(layout|tensor|file|io)/ lib/reserved.h
daemon base/ shm/ lib/io/ lib/descriptor/
daemon/loop base/ shm/ daemon/messages.h
daemon/config base/ shm/ daemon/messages.h daemon/loop/
daemon/loader base/ shm/ lib/io/ daemon/messages.h daemon/(config|loop)/
daemon/server base/ shm/ lib/descriptor/ daemon/messages.h daemon/(config|loop)/
daemon/keeper base/ shm/ daemon/messages.h daemon/(config|loop)/ daemon/(server/server|loader/loader)\.h
ops base/ lib/(number|move)/
mpi base/
cli base/
cli/doctor base/ cli/ lib/io/ lib/cuda/cuda\.h lib/store/(daemon_path|socket_path|socket_connect)\.h
python
examples
END

# calls BUILD: "FROM TO FUNCTION" for each call between two rooms of the server.
calls() {
	local object room source

	find "$1/daemon/server" -name '*.o' -path '*/.libs/*' | sort |
		while read -r object; do
			room=${object#"$1"/daemon/server/}
			room=${room%/*.o}
			room=${room%.libs}
			source=${object##*/libdaemon_la-}
			# One that an earlier build has left does not count.
			[ -f "daemon/server/$room${source%.o}.c" ] || continue
			nm "$object" | sed "s:^:${room:-turn/} :"
		done | awk '
		$3 ~ /^[TDBR]$/ { home[$4] = $1 }
		$2 == "U" { from[++n] = $1; what[n] = $3 }
		END {
			for (i = 1; i <= n; i++)
				if (what[i] in home && home[what[i]] != from[i])
					print from[i], home[what[i]], what[i]
		}' | sed 's:/ : :g' | sort -u
}

# The rooms of the server from the top to the ground. A room calls those that
# stand below it. The way back is a callback that was given with the call. The
# files beside the rooms are the first, "turn": they give each message and each
# turn of the loop to the rooms, and no room calls them.
order='turn client inspect load publish channel storage memory send account'

found=$(calls "${top_builddir:?set by tests/run}" | awk -v order="$order" '
	BEGIN { n = split(order, room, " "); for (i in room) at[room[i]] = i + 0 }
	$1 in at && $2 in at && at[$2] < at[$1]' | sort)
if [ -z "$(find "$top_builddir/daemon/server" -name '*.o' 2>/dev/null)" ]; then
	count=$((count + 1))
	echo "ok $count # SKIP there are no objects in $top_builddir"
else
	judge "calls were found" "$(
		calls "$top_builddir" | grep -q '^load storage storage_new$' ||
			echo "load does not call storage_new"
	)"
	judge "rooms of the server call no room above them" "$found"
	judge "every room of the server has its place" "$(
		find daemon/server -mindepth 1 -maxdepth 1 -type d \
			-printf '%f\n' | while read -r room; do
			[[ " $order " == *" $room "* ]] || echo "$room"
		done
	)"
fi
echo "1..$count"
