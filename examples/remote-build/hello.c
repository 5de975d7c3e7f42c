#include <stdio.h>

int main(void) {
	puts("hello from a build over ssh");
	return 0;
}
