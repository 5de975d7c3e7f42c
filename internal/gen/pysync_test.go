package main

import (
	"strings"
	"testing"
)

func TestToSync(t *testing.T) {
	for from, want := range map[string]string{
		"async def run(self) -> None:":                       "def run(self) -> None:",
		`"""Used with "async with", it ends."""`:             `"""Used with "with", it ends."""`,
		"    async for c in s.stream(x):":                    "    for c in s.stream(x):",
		"x = await self._do(f(y), patient=await g())":        "x = self._do(f(y), patient=g())",
		"(await self._do(f(g(x)))).id + (await h())":         "self._do(f(g(x))).id + (h())",
		"async def __aenter__(self) -> Self:":                "def __enter__(self) -> Self:",
		"class E(AsyncIterator[T]):":                         "class E(Iterator[T]):",
		"from ._aio_stream import Stream":                    "from ._stream import Stream",
		"from .aio import Client":                            "from .client import Client",
		`return f"<trl.aio.Exec {self.id}>"`:                 `return f"<trl.Exec {self.id}>"`,
		"from ._opening import Opening\nx":                   "x",
		"def session(self) -> Opening[Session]:":             "def session(self) -> Session:",
		"return Opening(open)":                               "return open()",
		"an awaited answer is awaiting, asynchronously":      "an awaited answer is awaiting, asynchronously",
		`"""The dialogues of the client with asyncio."""`:    `"""The dialogues of the synchronous client."""`,
		"What other tasks wait for ends with ConnectionLost": "What other threads wait for ends with ConnectionLost",
	} {
		if got := toSync(from); got != want {
			t.Errorf("%q became %q, want %q", from, got, want)
		}
	}
}

// TestNothingAsyncIsLeft: every asyncio word of the modules has a synchronous one.
func TestNothingAsyncIsLeft(t *testing.T) {
	for _, f := range syncFiles {
		text, err := writeSync("../../sdk/python/src/trl_client", f.from)
		if err != nil {
			t.Fatal(err)
		}
		for n, line := range strings.Split(string(text), "\n") {
			for _, word := range []string{"async ", "await ", "__aenter", "__aexit", "__anext", "Async", "Opening[", "Opening(", "_aio_", "asyncio."} {
				if n > 0 && strings.Contains(line, word) && !strings.Contains(line, "with asyncio.") {
					t.Errorf("%s:%d: has %q: %s", f.to, n+1, word, line)
				}
			}
		}
	}
}

// TestPythonOptions: an option that the contract does not have is refused, so that a renamed
// parameter cannot get lost.
func TestPythonOptions(t *testing.T) {
	c := testContract(t)
	text, err := writeOptions(c)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"class WaitOptions(", "    until: _types.WaitUntil | Sequence[_types.WaitUntil]\n", "    env: Mapping[str, str]\n", "    stdin: str | bytes | None\n"} {
		if !strings.Contains(string(text), want) {
			t.Errorf("%q is missing", want)
		}
	}
	saved := pythonOptions
	defer func() { pythonOptions = saved }()
	pythonOptions = []options{{name: "X", from: "ExecWaitParams", without: []string{"no_such_field"}}}
	if _, err := writeOptions(c); err == nil {
		t.Error("an unknown field was accepted")
	}
}
