package vm

import (
	"slices"
	"testing"
)

// TestConsole: each test in the machine is found on the console, with its own output; a program that did not
// end is not.
func TestConsole(t *testing.T) {
	const mark = "\x16" // before the lines of -test.v=test2json
	console := []byte("booting\n" + beginMark + "root/x\n" +
		mark + "=== RUN   TestA\n    a_test.go:1: one\n" + mark + "--- PASS: TestA (0.00s)\n" + mark + "=== NAME  \n" +
		mark + "=== RUN   TestB\n" + mark + "=== RUN   TestB/sub\n    b_test.go:2: two\n" + mark + "--- FAIL: TestB/sub (0.00s)\n" +
		mark + "--- FAIL: TestB (0.00s)\n" + mark + "=== NAME  \n" +
		mark + "=== RUN   TestC\n    c_test.go:3: three\n" + mark + "--- SKIP: TestC (0.00s)\n" + mark + "=== NAME  \n" +
		mark + "FAIL\n\n" + failMark + "exit status 1\n\n" + endMark + "root/x\n" + beginMark + "root/y\n=== RUN   TestD\n")
	text, ok := section(console, "root/x")
	if !ok {
		t.Fatal("no section")
	}
	var got []string
	for _, r := range parse(t, text) {
		got = append(got, r.name+" "+r.action)
	}
	if want := []string{"TestA pass", "TestB/sub fail", "TestB fail", "TestC skip"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if !failed(text) || failed([]byte("PASS\n")) {
		t.Error("the status of the program is not seen")
	}
	if _, ok := section(console, "root/y"); ok {
		t.Error("a program that has not ended has a section")
	}
}
