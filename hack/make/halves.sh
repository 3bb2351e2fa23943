#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Runs the tests of one package in two processes at a time: those whose names match, and the others. For a package whose tests take longer than those of
# all others together, and wait for most of it. What they print comes at their end.
# Usage: halves.sh PACKAGE REGEXP FLAGS-OF-THE-BUILD...
set -euo pipefail

package=$1 names=$2
shift 2
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
tests=$folder/$(basename "$package").test
go test "$@" -c -o "$tests" "$package"
# Where what all tests have done together is looked at, each half says here what it did.
export TEST_HALVES=$folder/halves
mkdir "$TEST_HALVES"

half() { (cd "$package" && "$tests" -test.timeout 45m "$@"); }
SECONDS=0
half -test.run "$names" >"$folder/first" 2>&1 & first=$!
half -test.skip "$names" >"$folder/second" 2>&1 & second=$!
failed=0
for one in first second; do
  if wait "${!one}"; then
    printf 'ok  \t%s\t%ss, its %s half\n' "$package" "$SECONDS" "$one"
  else
    failed=1
    cat "$folder/$one"
    printf 'FAIL\t%s, its %s half\n' "$package" "$one"
  fi
done
exit $failed
