# No line of a script may be longer than 100 characters.
! grep -n '.\{101\}' ./*.sh
