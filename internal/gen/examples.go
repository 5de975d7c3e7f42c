package main

// example is a call as the documents show it. All examples together are one story, in order. A test
// plays it with a real daemon: … in an answer or push stands for any text, and an id stands for the
// id that the daemon returns in its place.
type example struct {
	method string
	params string
	data   string   // of the answer
	pushes []string // after the answer; more may follow
	before []string // calls that are not shown: methods and parameters
	until  string   // the test waits for this push of the dialogue after them
}

var examples = []example{
	{method: "system.ping",
		data: `{"uptime_s":…,"version":"…"}`},
	{method: "system.stats",
		data: `{"active_sessions":0,"total_commands_run":0,"uptime_s":…,"memory_rss_bytes":…,"open_fds":…}`},
	{method: "system.info",
		data: `{"version":"…","api_version":1,"os":"…","arch":"…","pid":…,"limits":{…},"capabilities":[…],"runtimes":["host"…],"methods":[…]…}`},
	{method: "system.hello",
		params: `{"label":"cli@laptop"}`,
		data:   `{"caller":{"transport":"socket","uid":…,"pid":…,"label":"cli@laptop"}}`},
	{method: "system.http",
		params: `{"on":true,"address":"127.0.0.1:0"}`,
		data:   `{"on":true,"url":"http://127.0.0.1:…","token_file":"…"}`},
	{method: "web.open",
		params: `{"scope":"full","expires_s":60}`,
		data:   `{"url":"http://127.0.0.1:…/#/login/…","expires_at":"…"}`},
	{method: "web.list",
		data: `{"logins":[],"shares":[]}`},
	{method: "web.revoke",
		params: `{"all":true}`,
		data:   `{"revoked":[]}`},
	{method: "runtime.list",
		data: `{"runtimes":[{"runtime":"host","kind":"host","configured":false,"options":[],"usable":true,"sessions":0},{"runtime":"docker","kind":"docker","configured":false,"argument":"IMAGE","options":["mounts",…],…},…],"default":"host","adhoc":true}`},
	{method: "runtime.check",
		params: `{"runtime":"host"}`,
		data:   `{"runtime":"host","kind":"host","reachable":true,"os":"…","arch":"…","enforced":[…]}`},
	{method: "runtime.prune",
		data: `{"removed":[],"pending":[],"faults":[]}`},
	{method: "guest.start",
		params: `{"owner_id":"d2bl5yoy6pa5wz4mrsi3dfcdqaq","owner":"laptop","session_id":"s-00000000aa","name":"build","kind":"shell"}`,
		data:   `{"owner_id":"d2bl5yoy6pa5wz4mrsi3dfcdqaq","owner":"laptop","owner_lost_s":86400,"connected":false,"session_id":"s-00000000aa","daemon_id":"…","place":{"kind":"host",…},"created_at":"…"}`},
	{method: "guest.end",
		params: `{"owner_id":"d2bl5yoy6pa5wz4mrsi3dfcdqaq","session_id":"s-00000000aa"}`,
		data:   `{"session_id":"s-00000000aa","cause":"killed by SIGKILL","killed":[]}`},
	{method: "guest.list",
		data: `{"guests":[],"daemon_id":"…","version":"…","os":"…","arch":"…","enforced":[…],"owner_lost_s":86400}`},
	{method: "session.create",
		params: `{"name":"build","shell":"/bin/sh","working_dir":"/tmp","env":{"CI":"1"}}`,
		data:   `{"session_id":"s-3f9a1c02de","name":"build","kind":"shell","runtime":"host","shell":"…","shell_family":"…","working_dir":"…","state":"idle",…}`},
	{method: "exec.run",
		params: `{"session_id":"build","command":"cd / && echo $CI; ls nosuch; false","timeout_s":10}`,
		data:   `{"exec_id":"x-3f9a1c02de-1","session_id":"s-3f9a1c02de","stdout":"1\n","stderr":"…nosuch…","exit_code":1,"duration_ms":…,"timed_out":false,"cancelled":false,…,"working_dir":"/",…}`},
	{method: "exec.stream",
		params: `{"session_id":"build","command":"echo one; false"}`,
		data:   `{"stream_id":"x-3f9a1c02de-2","exec_id":"x-3f9a1c02de-2",…}`,
		pushes: []string{
			`{"stream_id":"x-3f9a1c02de-2","seq":1,"type":"stdout","offset":0,"data":"one\n"}`,
			`{"stream_id":"x-3f9a1c02de-2","seq":2,"type":"exit","exit_code":1,…}`,
		}},
	{method: "exec.start",
		params: `{"session_id":"build","command":"read name; echo hello $name","stdin_open":true}`,
		data:   `{"exec_id":"x-3f9a1c02de-3","session_id":"s-3f9a1c02de","command":"read name; echo hello $name","state":"…",…}`},
	{method: "exec.signal",
		params: `{"exec_id":"x-3f9a1c02de-3","signal":"CONT","to":"tree"}`,
		data:   `{"exec_id":"x-3f9a1c02de-3","signal":"SIGCONT","processes":[…]}`},
	{method: "exec.input",
		params: `{"exec_id":"x-3f9a1c02de-3","data":"you\n","write_id":"1"}`,
		data:   `{"exec_id":"x-3f9a1c02de-3","stdin_bytes":4,"repeated":false,"closed":false}`},
	{method: "exec.wait",
		params: `{"exec_ids":["x-3f9a1c02de-3"],"until":"exit","timeout_s":30}`,
		data:   `{"happened":[{"exec_id":"x-3f9a1c02de-3","session_id":"s-3f9a1c02de","reason":"exit","outcome":{"exit_code":0,…},…}],"pending":[],"timed_out":false}`},
	{method: "exec.output",
		params: `{"exec_id":"x-3f9a1c02de-3","tail":4}`,
		data:   `{"exec_id":"x-3f9a1c02de-3","stream":"stdout","offset":6,"data":"you\n","next_offset":10,"total_bytes":10,"state":"closed","complete":true}`},
	{method: "exec.info",
		params: `{"exec_id":"x-3f9a1c02de-3"}`,
		data:   `{"exec_id":"x-3f9a1c02de-3",…,"state":"closed",…,"outcome":{"exit_code":0,…}}`},
	{method: "exec.cancel",
		before: []string{"exec.start", `{"session_id":"build","command":"exec sleep 1000"}`},
		params: `{"session_id":"build","signal":"INT"}`,
		data:   `{"exec_id":"x-3f9a1c02de-4",…}`},
	{method: "exec.list",
		params: `{"session_id":"build","state":"closed"}`,
		data:   `{"execs":[{"exec_id":"x-3f9a1c02de-1",…},…]}`},
	{method: "session.list",
		params: `{"state":"idle"}`,
		before: []string{"exec.wait", `{"session_ids":["build"]}`},
		data:   `{"sessions":[{"session_id":"s-3f9a1c02de","name":"build",…,"state":"idle",…}]}`},
	{method: "session.info",
		params: `{"session_id":"build"}`,
		data:   `{"session_id":"s-3f9a1c02de",…,"env_keys":["CI"],…,"processes":[],…}`},
	{method: "event.subscribe",
		params: `{"session_id":"build","types":["session"],"after_seq":0}`,
		data:   `{"stream_id":"…"…}`,
		pushes: []string{
			`{"stream_id":"…","seq":…,"type":"session.created","at":"…","session_id":"s-3f9a1c02de","name":"build"}`,
			`{"stream_id":"…","seq":…,"type":"session.running","at":"…","session_id":"s-3f9a1c02de","name":"build"}`,
		}},
	{method: "stream.close",
		params: `{"stream_id":"events/99"}`,
		data:   `{"closed":false}`},
	{method: "usage.subscribe",
		params: `{"session_id":"build","interval_s":0.5}`,
		data:   `{"stream_id":"…"}`,
		pushes: []string{`{"stream_id":"…","seq":1,"type":"usage","at":"…","sessions":[{"session_id":"s-3f9a1c02de","name":"build",…}]}`}},
	{method: "audit.list",
		params: `{"session_id":"build","method":"exec","outcome":"ok","limit":1}`,
		data:   `{"records":[{"seq":…,"at":"…","method":"exec.cancel","outcome":"ok","duration_ms":…,"caller":{"transport":"socket","uid":…,"pid":…},"session_id":"s-3f9a1c02de","exec_id":"x-3f9a1c02de-4","prev":"…","hash":"…"}],"next_before_seq":…,"last_seq":…}`},
	{method: "audit.subscribe",
		params: `{"method":"session.create","after_seq":0}`,
		data:   `{"stream_id":"…"…}`,
		pushes: []string{`{"stream_id":"…","seq":…,"type":"audit","at":"…","audit":{"seq":…,"at":"…","method":"session.create","outcome":"ok",…,"session_id":"s-3f9a1c02de",…}}`}},
	{method: "audit.verify",
		data: `{"ok":true,"records":…,"first_seq":1,"last_seq":…,"last_hash":"…"}`},
	{method: "web.share",
		params: `{"session_id":"build","expires_s":600,"viewers":2}`,
		data:   `{"share_id":"h-…","session_id":"s-3f9a1c02de","viewers":2,"created_at":"…","expires_at":"…","url":"http://127.0.0.1:…/#/login/…?to=/s/…"}`},
	{method: "session.own",
		before: []string{"session.create", `{"name":"mine","ephemeral":true,"linger_s":60}`},
		params: `{"session_id":"mine"}`,
		data:   `{"session_id":"…","name":"mine",…}`},
	{method: "session.destroy",
		params: `{"session_id":"build"}`,
		data:   `{"session_id":"s-3f9a1c02de","state":"terminated","killed":[]}`},
	{method: "session.create",
		params: `{"kind":"terminal","name":"demo","command":["sh"],"env":{"PS1":"$ "},"cols":40,"rows":5,"record":true}`,
		data:   `{"session_id":"s-81d0b7e6f4","name":"demo","kind":"terminal",…,"state":"running",…,"command":["sh"],"exec_id":"x-81d0b7e6f4-1","terminal":{"cols":40,"rows":5,…},…}`},
	{method: "session.input",
		before: []string{"session.wait", `{"session_id":"demo","cursor":{"x":2,"y":0}}`},
		params: `{"session_id":"demo","text":"echo hello","keys":["enter"],"write_id":"1"}`,
		data:   `{"bytes":11,"written":11,"repeated":false}`},
	{method: "session.wait",
		params: `{"session_id":"demo","text":"^hel(.*)","timeout_s":30}`,
		data:   `{"session_id":"s-81d0b7e6f4","reason":"text","timed_out":false,"match":"hello","groups":["hello","lo"],"version":…,"cursor":{…}}`},
	{method: "session.screen",
		before: []string{"session.wait", `{"session_id":"demo","cursor":{"x":2,"y":2}}`},
		params: `{"session_id":"demo"}`,
		data:   `{"session_id":"s-81d0b7e6f4","state":"running","version":…,"offset":…,"cols":40,"rows":5,"cursor":{"x":2,"y":2,"visible":true,…},"title":"","alternate":false,"modes":{…},"scrollback_lines":0,"text":"$ echo hello\nhello\n$…"}`},
	{method: "session.set",
		params: `{"session_id":"demo","tags":["shown"]}`,
		data:   `{"session_id":"s-81d0b7e6f4","name":"demo",…,"tags":["shown"],…}`},
	{method: "session.resize",
		params: `{"session_id":"demo","cols":60,"rows":5}`,
		data:   `{"cols":60,"rows":5,"applied":true}`},
	{method: "session.attach",
		params: `{"session_id":"demo","read_only":true}`,
		data:   `{"stream_id":"…","session_id":"s-81d0b7e6f4","viewer_id":"…"}`,
		pushes: []string{
			`{"stream_id":"…","seq":1,"type":"snapshot","offset":…,"data":"…","cols":60,"rows":5,"version":…}`,
		}},
	{method: "session.recording",
		params: `{"session_id":"demo","limit":100}`,
		data:   `{"session_id":"s-81d0b7e6f4","offset":0,"data":"{\"version\":3,…","total":…,"complete":false,"recorded_at":"…"}`},
	{method: "recording.list",
		params: `{"limit":1}`,
		data:   `{"recordings":[{"recording_id":"s-81d0b7e6f4","name":"demo",…,"cols":…,"rows":…,"bytes":…,"live":true,"started_at":"…","changed_at":"…"}],"total_bytes":…}`},
	{method: "dialogue.create",
		params: `{"agent":"claude","name":"review","working_dir":"/tmp"}`,
		data:   `{"dialogue_id":"d-5b20c9e1a7","name":"review","agent":"claude","version":"…","state":"idle","session_id":"s-c06a2d9f13",…,"epoch":1,"seq":…}`},
	{method: "dialogue.send",
		params: `{"dialogue_id":"review","text":"Which tests fail?","message_id":"5c1d8e0a-7b32-4f6e-9a41-c2d3e4f5a6b7"}`,
		data:   `{"message_id":"5c1d8e0a-7b32-4f6e-9a41-c2d3e4f5a6b7","seq":…,"repeated":false}`},
	{method: "dialogue.events",
		until:  `…"type":"turn_ended"…`,
		params: `{"dialogue_id":"review","after_seq":0,"no_deltas":true}`,
		data:   `{"stream_id":"…","session_id":"s-c06a2d9f13","dialogue_id":"d-5b20c9e1a7"}`,
		pushes: []string{
			`{"stream_id":"…","seq":1,"type":"dialogue","dialogue_id":"d-5b20c9e1a7","event":{"seq":1,"at":"…","type":"opened","epoch":1,"offset":0,"opened":{"agent":"claude",…}}}`,
			`{"stream_id":"…","seq":2,"type":"dialogue","dialogue_id":"d-5b20c9e1a7","event":{"seq":2,"at":"…","type":"state","epoch":1,"offset":0,"state":"idle"}}`,
			`{"stream_id":"…","seq":3,"type":"dialogue","dialogue_id":"d-5b20c9e1a7","event":{"seq":3,"at":"…","type":"item","epoch":1,"item":{"item_id":"5c1d8e0a-7b32-4f6e-9a41-c2d3e4f5a6b7","kind":"user","parts":[{"type":"text","text":"Which tests fail?"}],"status":"final"}}}`,
		}},
	{method: "dialogue.requests",
		before: []string{"dialogue.send", `{"dialogue_id":"review","text":"ask Bash rm -r build; say As you like."}`},
		until:  `…"type":"request_opened",…"request":{"request_id":"r1.1",…`,
		data:   `{"requests":[{"dialogue_id":"d-5b20c9e1a7","name":"review","agent":"claude","request":{"request_id":"r1.1",…,"kind":"permission","tool":"Bash",…,"opened_at":"…"}}]}`},
	{method: "dialogue.respond",
		params: `{"dialogue_id":"review","request_id":"r1.1","decision":"deny","message":"make clean does that"}`,
		data:   `{"dialogue_id":"d-5b20c9e1a7",…,"requests":0,…}`},
	{method: "dialogue.interrupt",
		before: []string{"dialogue.send", `{"dialogue_id":"review","text":"say I am on it.; hang"}`},
		until:  `…"text":"I am on it."…`,
		params: `{"dialogue_id":"review"}`,
		data:   `{"dialogue_id":"d-5b20c9e1a7",…}`},
	{method: "dialogue.set",
		params: `{"dialogue_id":"review","policy":{"rules":[{"tool":"Bash","pattern":"go test *","action":"allow"},{"tool":"Read","action":"allow"}],"deny_after_s":600}}`,
		data:   `{"dialogue_id":"d-5b20c9e1a7",…}`},
	{method: "dialogue.transcript",
		until:  `…"outcome":"interrupted"…`,
		params: `{"dialogue_id":"review"}`,
		data:   `{"dialogue_id":"d-5b20c9e1a7","seq":…,"state":"…","turns":[{"turn_id":"t1.1","trigger":"user","messages":["5c1d8e0a-7b32-4f6e-9a41-c2d3e4f5a6b7"],"outcome":"completed",…},…],"items":[{"item_id":"5c1d8e0a-7b32-4f6e-9a41-c2d3e4f5a6b7","kind":"user","parts":[{"type":"text","text":"Which tests fail?"}],"status":"final"},…],"tasks":[],"requests":[{"request_id":"r1.1",…,"kind":"permission","tool":"Bash",…,"how":"answered","decision":"deny","by":"client","answered_by":{"transport":"socket"},"answered_at":"…"}],"notices":[…],"usage":{…},"total_items":…}`},
	{method: "dialogue.transcript",
		params: `{"dialogue_id":"review","limit":1,"depth":0,"cut_bytes":1000}`,
		data:   `{"dialogue_id":"d-5b20c9e1a7","seq":…,"state":"…","turns":[…],"items":[{…}],"tasks":[],"requests":[…],"notices":[…],"usage":{…},"total_items":…,"has_before":true}`},
	{method: "dialogue.item",
		params: `{"dialogue_id":"review","item_id":"5c1d8e0a-7b32-4f6e-9a41-c2d3e4f5a6b7","field":"parts.0.text","offset":6}`,
		data:   `{"dialogue_id":"d-5b20c9e1a7","seq":…,"scope":"","data":"tests fail?","offset":6,"total":17,"complete":true}`},
	{method: "dialogue.search",
		params: `{"dialogue_id":"review","text":"which tests","limit":10}`,
		data:   `{"dialogue_id":"d-5b20c9e1a7","seq":…,"matches":[…,{"item_id":"5c1d8e0a-7b32-4f6e-9a41-c2d3e4f5a6b7","scope":"",…"kind":"user","snippet":"Which tests fail?"}],"more":false}`},
	{method: "dialogue.lines",
		params: `{"dialogue_id":"review","limit":2,"cut_bytes":40}`,
		data:   `{"dialogue_id":"d-5b20c9e1a7","epoch":1,"lines":[{"stream":"stdin","offset":0,"bytes":…,"at":"…","type":"control_request","text":"…","cut":true,"events":[]},…,{"stream":"stdout","offset":0,"bytes":…,"at":"…","type":"control_response","text":"…","cut":true,"events":[{"seq":1,"type":"opened"},{"seq":2,"type":"state"}]},…],"next_offset":…,"total":…,"total_stdin":…,"complete":false}`},
	{method: "dialogue.raw",
		params: `{"dialogue_id":"review","limit":40}`,
		data:   `{"dialogue_id":"d-5b20c9e1a7","epoch":1,"offset":0,"data":"{…","total":…,"complete":false}`},
	{method: "dialogue.info",
		params: `{"dialogue_id":"review"}`,
		data:   `{"dialogue_id":"d-5b20c9e1a7","name":"review",…,"turns":3,"requests":0,"tasks":0,…,"usage":{…},…}`},
	{method: "dialogue.terminate",
		params: `{"dialogue_id":"review"}`,
		data:   `{"dialogue_id":"d-5b20c9e1a7",…,"state":"ended",…,"ended":{"cause":"closed",…}}`},
	{method: "dialogue.resume",
		params: `{"dialogue_id":"review","prompt":"Where were we?"}`,
		data:   `{"dialogue_id":"d-5b20c9e1a7",…,"epoch":2,…}`},
	{method: "dialogue.retry",
		params: `{"dialogue_id":"review"}`,
		data:   `{"dialogue_id":"d-5b20c9e1a7",…}`},
	{method: "dialogue.list",
		data: `{"dialogues":[{"dialogue_id":"d-5b20c9e1a7","name":"review",…}]}`},
}

// firstLines is the first example of the page: an answer and an error.
const firstLines = `→ {"id":1,"method":"system.ping"}
← {"id":1,"ok":true,"data":{"uptime_s":…,"version":"…"}}
→ {"id":"b","method":"session.info","params":{"session_id":"nosuch"}}
← {"id":"b","ok":false,"error":{"code":"SESSION_NOT_FOUND","message":"session \"nosuch\": not found"}}
`

// examplesOf returns the examples of a method.
func examplesOf(method string) []example {
	var list []example
	for _, ex := range examples {
		if ex.method == method {
			list = append(list, ex)
		}
	}
	return list
}

// request returns the line of the request.
func (e *example) request() string {
	if e.params == "" {
		return `{"id":"1","method":"` + e.method + `"}`
	}
	return `{"id":"1","method":"` + e.method + `","params":` + e.params + `}`
}

// answers returns the lines of the answer and of the pushes.
func (e *example) answers() []string {
	return append([]string{`{"id":"1","ok":true,"data":` + e.data + `}`}, e.pushes...)
}
