# SPDX-License-Identifier: MIT
#
# apt, as this machine has it, or for another architecture or distribution. The
# latter is a second state of apt's own in a folder: it has lists of its own and
# knows nothing as installed. This machine's state is neither read nor changed.
# shellcheck shell=bash disable=SC2034 # for the scripts that source it

# apt_elsewhere FOLDER ARCHITECTURE [SOURCE]: what "${apt[@]}" are the options
# of, behind apt-get and apt-cache; without a line of sources.list(5) it asks
# whom this machine asks.
apt_elsewhere() {
	local state=$1/apt

	mkdir -p "$state"/{lists,cache/archives}/partial "$state/none" || return
	: >"$state/status"
	apt=(-o "APT::Architecture=$2" -o "APT::Architectures=$2"
		-o "Dir::State=$state" -o "Dir::State::status=$state/status"
		-o "Dir::Cache=$state/cache" -o APT::Sandbox::User=)
	[ -z "${3-}" ] || {
		echo "$3" >"$state/sources.list"
		apt+=(-o "Dir::Etc::SourceList=$state/sources.list"
			-o "Dir::Etc::SourceParts=$state/none")
	}
}
