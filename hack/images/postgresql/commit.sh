#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
#
# postgresql-commit-upgrade drops what an upgrade, or the way back from one, left beside the data of the server that runs it. The mark stays: members
# that were away meanwhile are known by it to have data that this one's took the place of.
set -eu
dir=/data mark=/data/pgdata/zeroinfra.upgrade
if [ -e "$mark" ]; then
  sed 's/^state=.*/state=Committed/' "$mark" >"$mark.new"
  sync "$mark.new"
  mv "$mark.new" "$mark"
  sync "$dir/pgdata"
fi
rm -rf "$dir/pgdata.before" "$dir/pgdata.after" "$dir/pgdata.upgrade" "$dir/pgdata.upgrade.source"
sync "$dir"
