#!/bin/sh
# Stands for cosign in a test. A bundle has the issuer, the identity of the workflow and the checksum of the
# blob, which cosign would get certified and would sign. Options that cosign needs must be there.
set -eu
command=$1 blob='' bundle='' yes='' issuer='' regexp=''
shift
while [ $# -gt 0 ]; do
	case $1 in
	--yes) yes=1 ;;
	--bundle) bundle=$2 && shift ;;
	--certificate-oidc-issuer) issuer=$2 && shift ;;
	--certificate-identity-regexp) regexp=$2 && shift ;;
	--username) shift ;;
	--password-stdin) cat >/dev/null ;;
	-*) echo "cosign $command: $1 is not known" >&2 && exit 64 ;;
	*) [ -z "$blob" ] && blob=$1 ;;
	esac
	shift
done
fail() { echo "cosign $command $blob: $1" >&2 && exit 1; }
case $command in
login) ;;
sign) [ -n "$yes" ] || fail "asks whether it may" ;;
sign-blob)
	[ -n "$yes" ] || fail "asks whether it may"
	printf '%s\n' "$ISSUER" "$IDENTITY" "$(sha256sum <"$blob")" >"$bundle"
	;;
verify-blob)
	[ -n "$issuer" ] && [ -n "$regexp" ] || fail "needs an issuer and an identity"
	{ read -r issued && read -r identity && read -r sum; } <"$bundle"
	[ "$sum" = "$(sha256sum <"$blob")" ] || fail "$bundle is about another file"
	[ "$issued" = "$issuer" ] || fail "the issuer is $issued"
	echo "$identity" | grep -Eq -e "$regexp" || fail "the identity is $identity"
	;;
*) exit 64 ;;
esac
