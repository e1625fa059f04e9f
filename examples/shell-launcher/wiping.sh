#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Copyright the ringproof authors.

# The launcher that comes to mind first, with a mistake in it: when etcd ends badly it
# takes the data for broken, and begins anew with none. But the other members know this
# one by its name and address, and count on what it has promised them.
state=new
while :; do
	"$ETCD" --name "$NAME" --data-dir "$DATA/etcd" \
		--initial-cluster "$INITIAL" --initial-cluster-token "$TOKEN" --initial-cluster-state "$state" \
		--listen-peer-urls "http://$ADDRESS:2380" --initial-advertise-peer-urls "http://$ADDRESS:2380" \
		--listen-client-urls "http://$ADDRESS:2379" --advertise-client-urls "http://$ADDRESS:2379" && exit
	rm -rf "$DATA/etcd"
	state=existing
	sleep 1
done
