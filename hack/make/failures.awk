# SPDX-License-Identifier: Apache-2.0
#
# What failed, out of what go test printed: the tests' names with the beginning of what each one said, and the packages.

/^(ok|FAIL|===|\?)/ { left = 0 }
/^ *--- FAIL: |^panic: |^fatal error: / { left = 12 }
left > 0 || /^FAIL\t/ { print substr($0, 1, 500); left-- }
