i=0
while [ $i -lt 100 ]; do
	i=$((i + 1))
	echo "compile file$i.c" >&2
done
echo "compiled $i of 100"
echo "publish? [y/n]"
read -r answer
[ "$answer" = y ] && echo published
