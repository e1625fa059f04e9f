#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Copyright the ringproof authors.

# A launcher of a few lines: it founds a ring of the machines that it is told of, and
# starts etcd again, with the flags that it is given, whenever it ends. It adds, removes
# and replaces nobody.
set -u
dir=$DATA/etcd

# An etcd may have outlived the launcher before this one.
alive() { [ "$(cat "/proc/$(cat "$RUN/pid" 2>/dev/null)/comm" 2>/dev/null)" = etcd ]; }

logged() { for wal in "$dir"/member/wal/*.wal; do [ -e "$wal" ] && return; done; return 1; }

stop() {
	alive && kill -TERM "$(cat "$RUN/pid")"
	while alive; do sleep 0.1; done
	exit 0
}
trap stop TERM

case ",$FOUNDERS," in
*",$NAME,"*) ;;
*) exec sleep infinity ;; # a spare machine
esac

listen=$ADDRESS
case $ADDRESS in *[a-z]*) listen=0.0.0.0 ;; esac # etcd listens at no name

tls=
if [ "$SCHEME" = https ]; then
	tls="--client-cert-auth --trusted-ca-file=$CERTS/clients/ca.crt
		--cert-file=$CERTS/clients/server.crt --key-file=$CERTS/clients/server.key
		--peer-client-cert-auth --peer-trusted-ca-file=$CERTS/peers/ca.crt
		--peer-cert-file=$CERTS/peers/peer.crt --peer-key-file=$CERTS/peers/peer.key"
fi

said=
while :; do
	logged && : >"$RUN/founded" # from here on a disk without a log is one that lost it
	if alive; then
		said=
	elif logged || [ ! -e "$RUN/founded" ]; then
		echo "starting etcd"
		# shellcheck disable=SC2086 # each word of $tls is a flag
		"$ETCD" "$@" $tls --name "$NAME" --data-dir "$dir" \
			--initial-cluster "$INITIAL" --initial-cluster-token "$TOKEN" --initial-cluster-state new \
			--listen-peer-urls "$SCHEME://$listen:2380" --initial-advertise-peer-urls "$SCHEME://$ADDRESS:2380" \
			--listen-client-urls "$SCHEME://$listen:2379" --advertise-client-urls "$SCHEME://$ADDRESS:2379" &
		echo $! >"$RUN/pid"
	elif [ -z "$said" ]; then
		echo "halted: the log of $NAME is gone; a person must remove the member and add it anew"
		said=yes
	fi
	sleep 0.2
done
