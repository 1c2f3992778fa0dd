#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# A temporary RADOS cluster on loopback from Debian's packages: one monitor, three OSDs, replication 3,
# no authentication, no manager, everything in one folder. Nothing is left when it is taken down.
#
#   rados.sh up DIR             start it; DIR must not exist
#   rados.sh down DIR           end its processes, by their ids, and remove DIR
#   rados.sh osd-kill DIR N     kill -9 one OSD
#   rados.sh osd-start DIR N    start it again
#   rados.sh run COMMAND...     up in a temporary folder, run the command, down; exits as it did.
#                               The command finds TERRANE_RADOS_CONF, TERRANE_RADOS_DIR and
#                               TERRANE_RADOS_SCRIPT (this file) in its environment.
set -eu
osds=3
pool=terrane

die()
{
	echo "rados.sh: $*" >&2
	exit 1
}

# write_conf DIR PORT
write_conf()
{
	cat >"$1/ceph.conf" <<END
[global]
fsid = $(cat /proc/sys/kernel/random/uuid)
mon initial members = a
mon host = [v2:127.0.0.1:$2]
public network = 127.0.0.0/8
cluster network = 127.0.0.0/8
ms bind ipv6 = false
ms bind msgr1 = false
auth cluster required = none
auth service required = none
auth client required = none
auth allow insecure global id reclaim = false
run dir = $1/run
crash dir = $1/run
admin socket = $1/run/\$name.asok
log file = $1/log/\$name.log
log to syslog = false
debug default = 0/0
debug ms = 0/0
debug osd = 0/0
debug bluestore = 0/0
debug bdev = 0/0
debug bluefs = 0/0
debug rocksdb = 0/0
debug mon = 0/0
debug paxos = 0/0
debug monc = 0/0
# copies on different OSDs, all of them on this one machine
osd crush chooseleaf type = 0
osd pool default size = 3
osd pool default min size = 2
osd pool default pg autoscale mode = off
mon max pg per osd = 2000
# both the monitor and the OSDs must know the grace
osd heartbeat interval = 1
osd heartbeat grace = 4
[mon.a]
mon data = $1/mon
mon allow pool delete = true
mon osd min down reporters = 1
mon osd reporter subtree level = osd
mon osd down out interval = 600
mon osd adjust heartbeat grace = false
mon data avail warn = 2
mon data avail crit = 1
[osd]
osd data = $1/osd.\$id
osd objectstore = bluestore
osd crush initial weight = 1
osd class load list = *
osd class default list = *
osd fast fail on connection refused = true
bluestore block create = true
bluestore block size = 4294967296
bluestore block db create = false
bluestore block wal create = false
osd memory target = 402653184
osd memory base = 134217728
osd memory cache min = 33554432
osd op num shards = 2
osd op num threads per shard = 1
ms async op threads = 2
osd max scrubs = 0
osd recovery sleep = 0
END
}

# start_daemon DIR NAME COMMAND...: in the background, its id in DIR/NAME.pid
start_daemon()
{
	dir=$1 name=$2
	shift 2
	"$@" -c "$dir/ceph.conf" -f >"$dir/log/$name.out" 2>&1 </dev/null &
	echo $! >"$dir/$name.pid"
}

osd_start()
{
	start_daemon "$1" "osd.$2" ceph-osd -i "$2"
}

# stop_daemon PIDFILE SIGNAL: sends the signal and waits until the process has ended
stop_daemon()
{
	[ -f "$1" ] || return 0
	pid=$(cat "$1")
	rm -f "$1"
	# the id may belong to another program by now
	grep -q '^ceph-' "/proc/$pid/comm" 2>/dev/null || return 0
	kill "-$2" "$pid" 2>/dev/null || return 0
	i=0
	while [ -d "/proc/$pid" ] && ! grep -q '^State:.Z' "/proc/$pid/status" 2>/dev/null; do
		i=$((i + 1))
		[ "$i" -lt 100 ] || kill -9 "$pid" 2>/dev/null || return 0
		sleep 0.1
	done
}

up()
{
	dir=$1
	[ ! -e "$dir/ceph.conf" ] || die "$dir is in use"
	mkdir -p "$dir/mon" "$dir/log" "$dir/run"
	port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
	write_conf "$dir" "$port"
	fsid=$(sed -n 's/^fsid = //p' "$dir/ceph.conf")
	export CEPH_CONF="$dir/ceph.conf"
	monmaptool --create --fsid "$fsid" --addv a "[v2:127.0.0.1:$port]" \
		--set-min-mon-release pacific "$dir/monmap" >"$dir/log/monmap.out" 2>&1
	ceph-mon -i a --mkfs --monmap "$dir/monmap" >"$dir/log/mkfs.out" 2>&1
	start_daemon "$dir" mon ceph-mon -i a
	n=0
	mkfs=
	while [ "$n" -lt "$osds" ]; do
		uuid=$(cat /proc/sys/kernel/random/uuid)
		id=$(ceph --connect-timeout 30 osd new "$uuid" 2>>"$dir/log/ceph.out") || die "the monitor does not answer"
		mkdir -p "$dir/osd.$id"
		ceph-osd -i "$id" --mkfs --osd-uuid "$uuid" >"$dir/log/osd.$id.mkfs" 2>&1 &
		mkfs="$mkfs $!"
		n=$((n + 1))
	done
	for pid in $mkfs; do
		wait "$pid" || die "an OSD could not be made; see $dir/log"
	done
	n=0
	while [ "$n" -lt "$osds" ]; do
		osd_start "$dir" "$n"
		n=$((n + 1))
	done
	ceph osd pool create $pool 32 32 replicated >>"$dir/log/ceph.out" 2>&1
	ceph osd pool application enable $pool terrane >>"$dir/log/ceph.out" 2>&1
	# usable when a write has reached its replicas
	timeout 60 rados -p $pool setomapval probe k v 2>>"$dir/log/ceph.out" || die "no write succeeds; see $dir/log"
	rados -p $pool rm probe
}

down()
{
	[ -f "$1/ceph.conf" ] || return 0
	for f in "$1"/osd.*.pid "$1"/mon.pid; do
		stop_daemon "$f" TERM
	done
	rm -rf "$1"
}

run()
{
	dir=$(mktemp -d "${TMPDIR:-/tmp}/terrane-rados-XXXXXX")
	trap 'down "$dir"; rm -rf "$dir"' EXIT
	trap 'exit 130' INT TERM HUP
	up "$dir"
	TERRANE_RADOS_CONF=$dir/ceph.conf TERRANE_RADOS_DIR=$dir TERRANE_RADOS_SCRIPT=$(realpath "$0")
	export TERRANE_RADOS_CONF TERRANE_RADOS_DIR TERRANE_RADOS_SCRIPT
	status=0
	"$@" || status=$?
	[ "$status" -eq 0 ] || tail -n 5 "$dir"/log/*.out >&2
	exit "$status"
}

verb=${1:-}
[ $# -ge 2 ] || die "usage: rados.sh up|down DIR, osd-kill|osd-start DIR N, run COMMAND..."
shift
case $verb in
up) up "$1" ;;
down) down "$1" ;;
osd-kill) stop_daemon "$1/osd.$2.pid" KILL ;;
osd-start) osd_start "$1" "$2" ;;
run) run "$@" ;;
*) die "no verb '$verb'" ;;
esac
