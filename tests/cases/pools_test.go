package cases_test

// Commands for random sequences. None of them ends a script, after any other command, and the output
// of each is the same in every run.

// stateful commands change or show what a shell keeps and can be restored.
var stateful = []string{
	"A=1", "A=$((A+1)); echo $A", "unset A; echo ${A-none}", "export B='x y'", "echo \"$B\"", "sh -c 'echo \"$B\"'",
	"unset B; echo \"${B:-dflt}\"", "cd /tmp", "cd /usr; pwd", "pwd", "cd / && cd /bin && cd - >/dev/null; pwd", "cd - >/dev/null; pwd", "echo $OLDPWD",
	"set -- a 'b c' d", "set -- ; echo $#", "echo $# \"${2-}\"", "[ $# -gt 0 ] && shift; echo $#",
	"umask 027; umask", "umask 022; umask", "set -f; echo /et[c]", "set +f; echo /et[c]", "IFS=:; echo \"$IFS\"", "unset IFS",
	"N='l1\nl2'; echo \"$N\"", "Q=\"it's \\\"q\\\" \\$x \\`y\\`\"; echo \"$Q\"", "echo \"${N-}${Q-}\"",
	"export E1=e E2=f; sh -c 'echo $E1$E2'", "sh -c 'echo ${E1-none}'", "E1=; unset E1; sh -c 'echo ${E1-none}'",
	"C=local; sh -c 'echo ${C-unexported}'", "export C; sh -c 'echo ${C-unexported}'", "T='tail  '; printf '[%s]' \"$T\"",
	"U='é☃'; echo \"$U\"", "Z=; echo \"${Z+set}\"", "set -a; AX=1; set +a; sh -c 'echo $AX'",
	"set -u; echo ${NOPE-unset}; set +u", "case $- in *f*) echo f;; *) echo nof;; esac", "_x=1; echo $_x",
	"B2=$(printf 'a\\001\\177b'); printf %s \"$B2\" | od -An -tx1", "alias zz='echo alias'; alias zz", "unalias zz 2>/dev/null; alias zz 2>/dev/null || echo gone",
}

// ordinary commands show how a shell runs things.
var ordinary = []string{
	"f() { echo f:$1:$A; return 3; }", "f q 2>/dev/null", "f r 2>/dev/null; echo $?", "unset -f f; f 2>/dev/null; echo $?",
	"echo $?", "false", "true", "(exit 7)", "(exit 5); echo $?", "for i in 1 2 3; do printf %s $i; done; echo",
	"i=0; while [ $i -lt 4 ]; do i=$((i+1)); done; echo $i", "case ${A-} in 1) echo one;; 2) echo two;; *) echo other;; esac",
	"echo out; echo err >&2", "printf 'no newline'", "printf 'a\\nb\\n' | while read l; do echo \"<$l>\"; done",
	"x=$(echo sub; exit 4); echo $? $x", "x=`echo bt`; echo $x", "cat <<E\nhere ${A-}\nE", "cat <<'E'\nraw $A 'q\nE",
	"{ echo grp; false; }", "! true", "! false", "true && echo and || echo or", "false && echo and || echo or",
	"trap 'echo usr' USR1; kill -USR1 $$; :", "trap - USR1", "trap '' USR1",
	"sleep 0.01 & wait $!; echo $?", "(exit 9) & wait $!", "wait; echo $?", "echo a b c | tr a-z A-Z", "eval 'echo ev; (exit 2)'",
	"command -v cd", "test -d / && echo dir", "[ a = b ]; echo $?", "exec 3>&1; echo three >&3; exec 3>&-",
	"OPTIND=1; getopts ab o -a; echo $o", "echo x # c", ":", "echo 'multi\nline'", "echo \"esc \\\" \\$ \\\\\"",
	"echo $((1+2*3)) $((7%3))", "read v </dev/null; echo $?", "sh -c 'exit 200'", "trl_no_such_command 2>/dev/null",
}

// subshellTraps work in all shells but ash, where they print nowhere.
var subshellTraps = []string{"(trap 'echo sub' EXIT; exit 2)", "(trap 'echo sub' EXIT); echo $?"}

// printable is what bash and zsh can also tell about themselves.
var printable = []string{
	"arr=(1 'two 2' '' 3); echo ${#arr[@]}", "arr+=(z); echo \"${arr[@]}\"", "unset arr; echo ${#arr[@]}",
	"f() { echo f:$1:$A; return 3; }; f q", "f r 2>/dev/null", "unset -f f; f 2>/dev/null; echo x",
	"g() { local v=1; cat <<E\nhere $1 $v\nE\n}; g a", "g b 2>/dev/null", "typeset -i n=5; n=n+1; echo $n", "n=n+2; echo $n",
	"typeset -A m; m[k]=v; echo \"${m[k]}\"", "set -o pipefail; false | true; echo $?", "set +o pipefail; false | true; echo $?",
	"typeset -x X2=exp; sh -c 'echo $X2'", "typeset -r RR=1; echo $RR",
}

var ofBash = []string{
	"shopt -s nullglob; echo /no/such*x", "shopt -u nullglob; echo /no/such*x", "shopt -s extglob; shopt extglob",
	"declare -n ref=A; ref=9; echo $A", "declare -l low=ABC; echo $low", "low=DEF; echo $low", "export -f f 2>/dev/null; bash -c 'f z' 2>/dev/null; echo x",
}

var ofZsh = []string{
	"setopt extendedglob; [[ -o extendedglob ]] && echo on", "unsetopt extendedglob; [[ -o extendedglob ]] || echo off",
	"setopt shwordsplit; x='a b'; printf '[%s]' $x", "unsetopt shwordsplit; x='a b'; printf '[%s]' $x",
	"setopt nullglob; echo /no/such*x end", "unsetopt nullglob", "float fl=1.5; echo $fl", "typeset -U uq; uq=(a b a); echo $uq", "uq+=(b c); echo $uq",
	"typeset -T TP tp; TP=a:b; echo $tp[2]", "tp+=(c); echo $TP",
}
