# SPDX-License-Identifier: Apache-2.0
# Copyright the ringproof authors.

# Reads go test -v. Prints a line a package, all of a package that failed, and
# in the end how many tests passed, and which were skipped and why. Ends with 1
# if one failed, or, with CI=true, if one was skipped that neither wants Docker nor is
# a trial: a test that nobody runs is no test. What matches the variable also is
# printed at once.

# flush prints what a package said.
function flush(i) { for (i = 1; i <= lines; i++) print section[i]; delete section; lines = 0 }

/^=== (RUN|NAME|CONT)/ { test = $3 }
/^ +[A-Za-z0-9_]+\.go:[0-9]+: / { said[test] = $0; sub(/^ +[^ ]+ /, "", said[test]) }
also != "" && $0 ~ also { print; next }
/^--- PASS: / { passed++ }
/^--- FAIL: / { failed++; broke = broke (broke == "" ? "" : "|") $3 }
/^ *--- SKIP: / { skips++; why[said[$3] == "" ? "no reason given" : said[$3]]++ }

/^(ok|\?) +\t?[^ ]+\// || /^\t.*coverage: / { print; delete section; lines = 0; delete said; next }
/^FAIL\t/ {
	flush(); print; delete said; broken++
	repeats = repeats "repeat: " (ENVIRON["CI"] == "true" ? "CI=true " : "") (ENVIRON["RINGPROOF_TRIALS"] != "" ? "RINGPROOF_TRIALS=1 " : "") "go test " $2 (broke == "" ? "" : " -run '^(" broke ")$'") "\n"; broke = ""
	next
}
!/^=== / && !/^ *--- PASS: / && $0 != "FAIL" && $0 != "PASS" { section[++lines] = $0 }

END {
	flush()
	for (reason in why) {
		printf "skipped %d: %s\n", why[reason], reason
		if (reason !~ /[Dd]ocker|make trials/) unexcused += why[reason]
	}
	printf "%s", repeats
	printf "tests: %d passed, %d failed, %d skipped\n", passed, failed, skips
	if (ENVIRON["CI"] == "true" && unexcused > 0) {
		printf "CI runs every test: %d skipped that are no trial and want no Docker\n", unexcused
		exit 1
	}
	if (failed + broken > 0) exit 1
}
