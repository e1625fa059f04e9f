# SPDX-License-Identifier: Apache-2.0
# Copyright the ringproof authors.

# What .ci/run and .ci/trials share: stages that all run, whatever became of the ones
# before, and last lines that say of each how long it took, and of what is red why.

names=() seconds=() verdicts=() commands=()

# stage NAME COMMAND ARGS...: what it prints is kept in $out/NAME.log. Exit code 3 is
# ringproof's inconclusive.
stage() {
	local name=$1 began=$SECONDS code=0
	shift
	echo "== $name: $*"
	"$@" 2>&1 | tee "$out/$name.log" || code=$?
	case $code in
	0) remember "$name" pass "$*" $((SECONDS - began)) ;;
	3) remember "$name" inconclusive "$*" $((SECONDS - began)) ;;
	*) remember "$name" fail "$*" $((SECONDS - began)) ;;
	esac
	echo "== $name took $((SECONDS - began)) s"
}

# remember NAME VERDICT COMMAND SECONDS
remember() {
	names+=("$1") verdicts+=("$2") commands+=("$3") seconds+=("$4")
}

# why LOG prints the lines that name what did not pass, its reason and what repeats it.
why() {
	grep -aE '^ *--- FAIL: |^panic: |^ +Error: |_test\.go:[0-9]+: [^ ]|^[✗≈]|^  (fail|inconclusive)  |^ *(replay|repeat): |^[^ ]+\.(go|yaml):[0-9]+:|^(gofmt -w|vet: )|^flaky: |could not tell: |ran differently|survived|false-positive|another-check|not-covered|^(ringproof|error): |: \*\*\*' "$1" |
		awk '!seen[$0]++' | head -n 20 | cut -c 1-240 | sed 's/^/    /' || true
}

# summary prints a line a stage; below what is red, why, and the command that repeats it;
# and which cells of the others were flaky.
summary() {
	local i
	echo
	for i in "${!names[@]}"; do
		printf '%-14s %-12s %5s s\n' "${names[i]}" "${verdicts[i]}" "${seconds[i]}"
	done
	for i in "${!names[@]}"; do
		case ${verdicts[i]} in
		pass) sed -n "s/^≈/flaky in ${names[i]}:/p" "$out/${names[i]}.log" 2>/dev/null; continue ;;
		skipped) continue ;;
		esac
		echo
		echo "not passed: ${names[i]} (${verdicts[i]})"
		[ ! -e "$out/${names[i]}.log" ] || why "$out/${names[i]}.log"
		echo "    again: ${commands[i]}"
	done
	echo
}

# worst prints the gravest verdict of all stages.
worst() {
	case " ${verdicts[*]-} " in
	*" fail "*) echo fail ;;
	*" inconclusive "*) echo inconclusive ;;
	*) echo pass ;;
	esac
}

# count FILE PATTERN prints how many lines match.
count() {
	if [ -e "$1" ]; then grep -c -- "$2" "$1" || true; else echo 0; fi
}

# cells FILE VERDICT prints how many cells of a report came to it; those that ran only to
# be compared are in none of the counts.
cells() {
	if [ -e "$1" ]; then sed -n "/^  \"counts\"/,/}/s/^    \"$2\": \([0-9]*\),*\$/\1/p" "$1"; else echo 0; fi
}
