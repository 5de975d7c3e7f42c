export GREETING='hello, world'
