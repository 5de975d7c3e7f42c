sleep 3000 &
