setsid sleep 2000 &
sleep 1000
